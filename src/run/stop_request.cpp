#include "hanse/run/stop_request.hpp"

#include <csignal>

namespace hanse {

namespace {

constexpr int kRequests[] = {SIGUSR1, SIGTERM, SIGINT};

volatile std::sig_atomic_t requested = 0;

void remember(int signal) {
  requested = 1;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

void let_requests_come() {
  sigset_t requests;
  sigemptyset(&requests);
  for (const int signal : kRequests) sigaddset(&requests, signal);
  sigprocmask(SIG_UNBLOCK, &requests, nullptr);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (const int signal : kRequests) sigaction(signal, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write, not a death
  let_requests_come();
}

void end_at_stop_signals() { let_requests_come(); }

bool stop_requested() { return requested != 0; }

}  // namespace hanse
