// The time that a rank would have, of work that is declared and not done.
//
// The rest of what a rank does takes the processor time that it takes here, which does not depend
// on how many ranks share a core. What a thread simulates concerns no other.
#pragma once

namespace hanse {

// From now on run_seconds() of this thread is simulated; it goes on from what it was.
class SimulatedTime {
 public:
  SimulatedTime();
  ~SimulatedTime();
  SimulatedTime(const SimulatedTime&) = delete;
  SimulatedTime& operator=(const SimulatedTime&) = delete;
};

bool time_is_simulated();
// Since the SimulatedTime began: a time that the ranks of a run have together. 0 without one.
double simulated_seconds();
// Seconds of declared work. No effect where time is not simulated.
void pass_time(double seconds);
// Waits until simulated_seconds() is that; no effect where it is later already.
void wait_until_simulated(double seconds);

// While it lives, only declared work takes time, and nothing is recorded as a span: what the thread
// does stands for something else. No effect where time is not simulated. May be nested.
class DeclaredTime {
 public:
  DeclaredTime();
  ~DeclaredTime();
  DeclaredTime(const DeclaredTime&) = delete;
  DeclaredTime& operator=(const DeclaredTime&) = delete;
};

// What a rank really does within a DeclaredTime that takes its time all the same.
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
