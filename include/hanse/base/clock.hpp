// Time in seconds, and a stopwatch that adds up phases.
#pragma once

#include <chrono>

namespace hanse {

// Seconds since an arbitrary fixed point; never goes backwards, whatever the wall clock does.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The time of a run, by which it measures what it does: monotonic_seconds(), or in a simulated run
// the time that this thread's rank would have (simulated_time.hpp).
double run_seconds();

// A time that something goes by, in seconds since an arbitrary fixed point.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double now_s() const = 0;
};

// That of run_seconds().
extern const Clock& kRunClock;

// Adds the lifetime of the object, in seconds of run_seconds(), to `total_s`.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& total_s) : total_s_(total_s), start_s_(run_seconds()) {}
  ~PhaseTimer() { total_s_ += run_seconds() - start_s_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& total_s_;
  double start_s_;
};

}  // namespace hanse
