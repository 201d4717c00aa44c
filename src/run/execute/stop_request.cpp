#include "hanse/base/stop_request.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

#include <unistd.h>

#include "hanse/run/execute.hpp"

namespace hanse {

namespace {

// Schedulers send kWarnings some time before the end, terminals kHangup, and whoever does not want
// the process any more kEnds.
constexpr int kWarnings[] = {SIGUSR1, SIGUSR2, SIGXCPU};
constexpr int kHangup = SIGHUP;
constexpr int kEnds[] = {SIGTERM, SIGINT};

// timeout(1) and shells send a signal to the process and to its group: one request arrives twice.
constexpr int64_t kEcho_ns = 200'000'000;

std::atomic<int64_t> asked_to_end_ns = -1;  // when the first of kEnds came
static_assert(std::atomic<int64_t>::is_always_lock_free);

void remember(int) { request_stop(); }

void remember_or_end(int signal) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  int64_t first_ns = -1;
  if (asked_to_end_ns.compare_exchange_strong(first_ns, now_ns) || now_ns - first_ns < kEcho_ns) {
    return remember(signal);
  }
  std::signal(signal, SIG_DFL);
  kill(getpid(), signal);
}

void catch_with(void (*handler)(int), int signal) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void let_requests_come() {
  sigset_t requests;
  sigemptyset(&requests);
  for (const int signal : kWarnings) sigaddset(&requests, signal);
  for (const int signal : kEnds) sigaddset(&requests, signal);
  sigaddset(&requests, kHangup);
  sigprocmask(SIG_UNBLOCK, &requests, nullptr);
}

}  // namespace

void catch_stop_warnings() {
  for (const int signal : kWarnings) catch_with(remember, signal);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write, not a death
  let_requests_come();
}

void catch_stop_signals() {
  if (!is_ignored(kHangup)) catch_with(remember, kHangup);  // nohup
  for (const int signal : kEnds) catch_with(remember_or_end, signal);
}

void end_at_stop_signals() { let_requests_come(); }

}  // namespace hanse
