#include "hanse/base/phase.hpp"

#include <utility>

#include "hanse/base/clock.hpp"
#include "hanse/base/span.hpp"
#include "nvtx_range.hpp"

namespace hanse {

namespace {

constexpr std::array<const char*, kPhases> kNames = {
    "set-up",   "reading", "draw", "broadcast",  "losses",     "training", "wait",
    "products", "reduce",  "step", "evaluation", "checkpoint", "output",   "rest"};

struct PhaseClock {
  PhaseTotals totals = {};
  Phase phase = Phase::kSetUp;
  double since_s = run_seconds();

  // Returns the moment.
  double turn(Phase next) {
    const double now_s = run_seconds();
    totals[static_cast<std::size_t>(phase)].seconds += now_s - since_s;
    phase = next;
    since_s = now_s;
    return now_s;
  }
};

// A thread is a rank, in tests at least.
thread_local PhaseClock clock_of_thread;

}  // namespace

const char* phase_name(Phase phase) { return kNames[static_cast<std::size_t>(phase)]; }

void begin_phases(double start_s) {
  clock_of_thread = {.since_s = start_s};
  clock_of_thread.totals.front().calls = 1;
}

PhaseTotals phase_totals() {
  clock_of_thread.turn(clock_of_thread.phase);
  return clock_of_thread.totals;
}

InPhase::InPhase(Phase phase)
    : outer_(clock_of_thread.phase), start_s_(clock_of_thread.turn(phase)), total_s_(nullptr) {
  ++clock_of_thread.totals[static_cast<std::size_t>(phase)].calls;
  open_range(phase_name(phase));
}

InPhase::InPhase(Phase phase, double& total_s) : InPhase(phase) { total_s_ = &total_s; }

InPhase::~InPhase() {
  const char* name = phase_name(clock_of_thread.phase);
  const double now_s = clock_of_thread.turn(outer_);
  close_range();
  if (total_s_) *total_s_ += now_s - start_s_;
  add_span({.name = name, .start_s = start_s_, .end_s = now_s});
}

}  // namespace hanse
