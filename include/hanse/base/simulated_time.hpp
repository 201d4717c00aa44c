// The time that a rank would have if its declared work were done.
//
// All else that a rank does takes the processor time that it takes here, which does not depend on
// how many ranks share a core. Each thread simulates for itself.
#pragma once

namespace hanse {

// From now on run_seconds() of this thread is simulated; it goes on from its last value.
class SimulatedTime {
 public:
  SimulatedTime();
  ~SimulatedTime();
  SimulatedTime(const SimulatedTime&) = delete;
  SimulatedTime& operator=(const SimulatedTime&) = delete;
};

bool time_is_simulated();
// Seconds since the SimulatedTime began, which the ranks of a run share. 0 without one.
double simulated_seconds();
// Adds seconds of declared work. No effect where time is not simulated.
void pass_time(double seconds);
// Waits until simulated_seconds() is `seconds`; no effect where it is later already.
void wait_until_simulated(double seconds);

// While it lives, only declared work takes time, and no spans are recorded: what the thread does
// stands for something else. No effect where time is not simulated. May be nested.
class DeclaredTime {
 public:
  DeclaredTime();
  ~DeclaredTime();
  DeclaredTime(const DeclaredTime&) = delete;
  DeclaredTime& operator=(const DeclaredTime&) = delete;
};

// Work of the rank itself within a DeclaredTime: it takes its time all the same.
class OwnWork {
 public:
  OwnWork();
  ~OwnWork();
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;

 private:
  int outer_;
};

bool time_is_declared();

}  // namespace hanse
