// Time in seconds.
#pragma once

#include <chrono>

namespace hanse {

// Seconds since an arbitrary fixed point; never goes backwards, whatever the wall clock does.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The time by which a run measures what it does: monotonic_seconds(), or in a simulated run the
// time that this thread's rank would have (simulated_time.hpp).
double run_seconds();

// A clock, in seconds since an arbitrary fixed point.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now_s() const = 0;
};

// The clock of run_seconds().
extern const Clock& kRunClock;

}  // namespace hanse
