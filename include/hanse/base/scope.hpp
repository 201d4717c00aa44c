// Where the time of a rank goes: phases, spans of a timeline, ranges of a profiler, totals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hanse {

// Every moment of a rank belongs to one phase, the innermost that is open.
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

// The name of the phase in which the thread is that has called begin_phases(); any thread may ask.
const char* shown_phase();

// The phase in which this thread is, or the innermost that the last exception has left since the
// thread has opened none: for messages.
Phase failed_phase();

struct PhaseTotal {
  double seconds = 0;
  int64_t calls = 0;
};
using PhaseTotals = std::array<PhaseTotal, kPhases>;

// Starts to count this thread's time, since `start_s` of run_seconds(); that time is set-up.
void begin_phases(double start_s);

// The totals of this thread up to this moment: their seconds sum to the time since begin_phases().
PhaseTotals phase_totals();

// What a rank did when: a phase, a client or a message, recorded for run.timeline.
struct Span {
  const char* name;       // a literal
  double start_s, end_s;  // of run_seconds()
  int64_t client = -1;
  int64_t bytes = -1;  // of a message, on this rank
};

// Does this thread record from now on? At first it does not.
void record_spans(bool record);
// Returns the spans that the thread recorded since the last call, in the order of their ends.
std::vector<Span> take_spans();

// Measures its own lifetime. A phase counts in phase_totals(); what has a phase or a name is a
// span, and in builds with CUDA a range of NVIDIA's profilers; `total_s` grows by the seconds of
// run_seconds(). While time is declared (simulated_time.hpp), names are not recorded.
// Cost: two looks at the clock; none for a name alone where no span is recorded.
class Scope {
 public:
  explicit Scope(Phase phase, double* total_s = nullptr);
  Scope(Phase phase, double& total_s) : Scope(phase, &total_s) {}
  // Adds to `total_s` its seconds less the growth of `apart_s`, which is Communicator::seconds().
  Scope(Phase phase, double& total_s, const double& apart_s);
  // `name` is a literal. `client` and `bytes` stand beside it in the span; below 0: none.
  explicit Scope(const char* name, int64_t client = -1, int64_t bytes = -1,
                 double* total_s = nullptr);
  // Measures for a total alone.
  explicit Scope(double& total_s);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  enum class Kind { kPhase, kName, kTotal };

  Kind kind_;
  Phase outer_ = Phase::kRest;  // the phase that goes on behind this one
  Span span_;                   // no name: it is not recorded
  double* total_s_;
  const double* apart_s_ = nullptr;
  double apart_before_s_ = 0;
};

}  // namespace hanse
