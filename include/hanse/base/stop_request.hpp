// A request to end, by a signal or a limit of time, and how long loops hear it.
//
// A run ends behind the round in which it is asked to. Loops that may go on for ever within a round
// call leave_if_stopped().
#pragma once

#include "hanse/base/error.hpp"

namespace hanse {

// Asks this process to stop. Async-signal-safe; only the first request counts.
void request_stop() noexcept;
// Has this process been asked to stop?
bool stop_requested();

// The process is also asked to stop at this monotonic_seconds(), as long as the object lives.
class StopTime {
 public:
  explicit StopTime(double at_s);
  ~StopTime();
  StopTime(const StopTime&) = delete;
  StopTime& operator=(const StopTime&) = delete;
};

// Seconds since the request, or since the time to stop; below 0: there is none.
double seconds_since_stop_request();

// A round was left, and nothing of it is kept.
class Stopped final : public Error {
 public:
  using Error::Error;
  ExitStatus exit_status() const override { return ExitStatus::kStopped; }
};

// How long a loop goes on all the same: most rounds end meanwhile, and then all is kept.
constexpr double kStopPatience_s = 3;
// Throws Stopped when the request is older. Cost: a look at the clock.
void leave_if_stopped();

}  // namespace hanse
