#include "hanse/base/simulated_time.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "hanse/base/clock.hpp"

namespace hanse {

namespace {

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Simulation {
  bool is_on = false;
  double start_s = 0;      // of monotonic_seconds()
  double passed_s = 0;     // since then, until processor_s
  double processor_s = 0;  // of this thread, when that was brought up to date
  int declared = 0;        // DeclaredTimes that are open

  double seconds() {
    const double now_s = declared > 0 ? processor_s : processor_seconds();
    passed_s += now_s - processor_s;
    processor_s = now_s;
    return passed_s;
  }
  // Returns the number that were open.
  int open(int declared_times) {
    seconds();
    if (declared > 0) processor_s = processor_seconds();
    return std::exchange(declared, declared_times);
  }
};

// A thread is a rank, in tests at least.
thread_local Simulation simulation;

struct RunClock final : Clock {
  double now_s() const override { return run_seconds(); }
};
const RunClock run_clock;

}  // namespace

const Clock& kRunClock = run_clock;

double run_seconds() {
  return simulation.is_on ? simulation.start_s + simulation.seconds() : monotonic_seconds();
}

SimulatedTime::SimulatedTime() {
  simulation = {.is_on = true, .start_s = monotonic_seconds(), .processor_s = processor_seconds()};
}

SimulatedTime::~SimulatedTime() { simulation = {}; }

bool time_is_simulated() { return simulation.is_on; }

bool time_is_declared() { return simulation.declared > 0; }

double simulated_seconds() { return simulation.is_on ? simulation.seconds() : 0; }

void pass_time(double seconds) {
  if (simulation.is_on) simulation.passed_s += seconds;
}

void wait_until_simulated(double seconds) {
  pass_time(std::max(0.0, seconds - simulated_seconds()));
}

DeclaredTime::DeclaredTime() {
  if (simulation.is_on) simulation.open(simulation.declared + 1);
}

DeclaredTime::~DeclaredTime() {
  if (simulation.is_on) simulation.open(simulation.declared - 1);
}

OwnWork::OwnWork() : outer_(simulation.is_on ? simulation.open(0) : 0) {}

OwnWork::~OwnWork() {
  if (simulation.is_on) simulation.open(outer_);
}

}  // namespace hanse
