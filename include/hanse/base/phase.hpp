// Where the time of a rank goes: every moment belongs to one phase, the innermost that is open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hanse {

enum class Phase : std::size_t {
  kSetUp,
  kReading,
  kDraw,
  kBroadcast,
  kLosses,
  kTraining,
  kWait,
  kProducts,
  kReduce,
  kStep,
  kEvaluation,
  kCheckpoint,
  kOutput,
  kRest,
};
constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::kRest) + 1;

// "set-up", "training", ...; the key of summary.json.
const char* phase_name(Phase phase);

struct PhaseTotal {
  double seconds = 0;
  int64_t calls = 0;
};
using PhaseTotals = std::array<PhaseTotal, kPhases>;

// Counts the time of this thread anew, since `start_s` of run_seconds(), which is in set-up.
void begin_phases(double start_s);

// Of this thread, to this moment: their seconds sum to the time since begin_phases().
PhaseTotals phase_totals();

// A phase for as long as the object lives. Cost: two looks at the clock.
class InPhase {
 public:
  explicit InPhase(Phase phase);
  // Adds the lifetime, in seconds, to `total_s` too.
  InPhase(Phase phase, double& total_s);
  ~InPhase();
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  Phase outer_;
  double start_s_;
  double* total_s_;
};

}  // namespace hanse
