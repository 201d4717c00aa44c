#include "hanse/base/stop_request.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "hanse/base/clock.hpp"

namespace hanse {

namespace {

constexpr double kNever_s = std::numeric_limits<double>::infinity();

std::atomic<double> requested_s = kNever_s;
std::atomic<double> stop_time_s = kNever_s;
static_assert(std::atomic<double>::is_always_lock_free);  // handlers of signals write it

}  // namespace

void request_stop() noexcept {
  double none = kNever_s;
  requested_s.compare_exchange_strong(none, monotonic_seconds());
}

bool stop_requested() { return requested_s < kNever_s; }

StopTime::StopTime(double at_s) { stop_time_s = at_s; }
StopTime::~StopTime() { stop_time_s = kNever_s; }

double seconds_since_stop_request() {
  const double since_s = std::min(requested_s.load(), stop_time_s.load());
  return since_s < kNever_s ? monotonic_seconds() - since_s : -1;
}

void leave_if_stopped() {
  if (seconds_since_stop_request() <= kStopPatience_s) return;
  throw Stopped("asked to stop within a round that does not end");
}

}  // namespace hanse
