#include "patience.hpp"

#include <algorithm>

#include <sched.h>
#include <time.h>

namespace hanse {

namespace {

constexpr double kUnsuspicious_s = 0.1;  // of a wait, before the watchdog may ask
constexpr long kShortestSleep_ns = 5'000;
constexpr long kLongestSleep_ns = 200'000;

}  // namespace

void Patience::pause() {
  const double waited_s = monotonic_seconds() - start_s_;
  if (sleep_ns_ == 0) {
    sched_yield();
    if (waited_s > polls_s_) sleep_ns_ = kShortestSleep_ns;
    return;
  }
  if (waited_s > kUnsuspicious_s) watchdog_.poll();
  const timespec pause{0, sleep_ns_};
  nanosleep(&pause, nullptr);
  sleep_ns_ = std::min(2 * sleep_ns_, kLongestSleep_ns);
}

void Patience::renew() {
  start_s_ = monotonic_seconds();
  sleep_ns_ = 0;
}

}  // namespace hanse
