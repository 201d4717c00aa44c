#include "run_phases.hpp"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string_view>

#include <fmt/format.h>

#include "hanse/base/log.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/run/execute.hpp"

namespace hanse {

namespace {

constexpr std::chrono::milliseconds kLook(250);
constexpr double kQuiet_s = 1;  // in which most rounds end

}  // namespace

void RunPhases::enter(const char* phase, int64_t round) {
  comm_.enter_phase(phase, round);
  phase_ = phase;
  round_ = round;
}

void RunPhases::hear_requests(double end_s) {
  catch_stop_signals();
  if (end_s > 0) end_.emplace(end_s);
  if (comm_.rank() != 0) return;
  // No signal is delivered to the thread: the handlers belong to the main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void RunPhases::watch(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any ends;
  while (!ends.wait_for(lock, stop, kLook, [&] { return stop.stop_requested(); })) {
    if (seconds_since_stop_request() < kQuiet_s) continue;
    return notice("stop requested; waiting for the end of " + awaited());
  }
}

std::string RunPhases::awaited() const {
  const std::string_view phase = phase_.load();
  const std::string round = fmt::format("round {}", round_.load());
  if (phase != "training") return fmt::format("the {} behind {}", phase, round);
  return fmt::format("{}, which is in the phase {}", round, shown_phase());
}

}  // namespace hanse
