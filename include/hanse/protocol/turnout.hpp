// Who of the drawn count in a round, and with which model and how long they worked: on rank 0.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/choice.hpp"
#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/rules/aggregation/options.hpp"
#include "hanse/rules/clock/on_line.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/tasks.hpp"
#include "hanse/rules/clock/ticks.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// What a participant works on, where it is not all of a round's work on the newest model. Trivially
// copyable: it travels as bytes.
struct TaskOrigin {
  int64_t received = 0;  // rounds that were completed when it got the model
  int64_t repeat = 0;    // ClientTask's, as `steps`
  int64_t steps = 0;

  bool operator==(const TaskOrigin&) const = default;
  auto operator<=>(const TaskOrigin&) const = default;
};

// A task of a later round whose model is there.
struct UpcomingTask {
  int64_t client = 0;
  TaskOrigin origin;
  int64_t worker = -1;  // that trains it before its round
};

// When a task starts, and when its end is known: its arrival, or that nothing comes of it.
struct TaskSpan {
  Ticks start = 0;
  Ticks known = 0;
};

// What becomes of a task in a round: its update counts; it arrives after the round's end, or does
// not start; nothing comes of it; it is older than async.max-staleness.
enum class TaskState { kCounted, kLate, kLost, kDiscarded };
constexpr auto choices_of(TaskState) { return std::array{"counted", "late", "lost", "discarded"}; }

struct UncountedTask {
  int64_t client = 0;
  TaskState state = TaskState::kLate;
  TaskSpan span;
  int64_t received = 0;    // as TaskOrigin's
  int64_t staleness = -1;  // of a discarded one

  double seconds() const { return seconds_of(span.known - span.start); }
};

// Arrays are per participant, in the order of the draw.
struct RoundTurnout {
  Draw draw;  // the participants, whose updates count
  WorkTimes times = {};
  std::vector<TaskOrigin> tasks = {};  // [K]; empty: everybody does all on the newest model
  std::vector<int64_t> kept = {};      // versions that this or later rounds start from, ascending
  // Tasks of later rounds in the order in which they will be needed, as far as they may be worth a
  // look; null: none. To be called before the next round's turnout. Cost: O(C + K log K).
  std::function<std::vector<UpcomingTask>()> upcoming = nullptr;
  std::vector<TaskSpan> spans = {};           // [K]; empty: not known
  std::vector<UncountedTask> uncounted = {};  // tasks whose ends are known since the last round
  double late_s = 0;  // the round would end then, behind the limit, and does not happen; 0: it does
};

struct DrawnClients {
  Draw draw;
  int64_t available = 0;  // clients that were there
};

// How a sampler draws.
struct DrawClients {
  // As many as it draws in a round.
  std::function<Draw()> draw_round;
  // n, by the random stream of dispatch number `call` (from 1), after these came or went.
  std::function<DrawnClients(int64_t call, int64_t n, std::span<const int64_t> changes)> dispatch;
};

class Turnout : public Stateful {
 public:
  // Clients that came or went since the last round, for rounds of one draw. Called before next().
  virtual std::vector<int64_t> begin() { return {}; }
  // The round's participants. What it returns does not depend on any training but by the draws.
  virtual RoundTurnout next(int64_t round, const DrawClients& draw) = 0;
  // Virtual seconds at the end of the last round.
  virtual double seconds() const = 0;
  // No round ends behind so many of them; 0: there is no limit.
  void set_limit(double seconds) { limit_s_ = seconds; }
  double limit() const { return limit_s_; }
  // Adds its own columns to the run's tables; it outlives them.
  virtual void add_columns(Columns& /*columns*/) const {}

 private:
  double limit_s_ = 0;
};

// Adds to turnout.kept what its tasks have received.
void keep_received(RoundTurnout& turnout);

// What a client that counts counts by, where not all do who are drawn.
struct CountedWeights {
  Estimator estimator = Estimator::kNormalized;
  std::vector<double> inclusion = {};  // [M] of Estimator::kArrival: inclusion_probabilities()
  double unreachable_share = 0;        // of clients that never count
};

// Synchronous rounds on the virtual clock. With Estimator::kNormalized a participant has its weight
// w_i in the draw; kUnbiased: w_i n / (number that counts), where n are drawn; kArrival: 1/pi_i
// (Horvitz and Thompson 1952). `per_round`: K. REQUIRES: the references outlive it.
std::unique_ptr<Turnout> make_timed_turnout(const ClockOptions& options, int64_t per_round,
                                            const Tasks& tasks, OnLine& on_line,
                                            CountedWeights weights);

// What the members of a buffer count by, beside their draws.
struct BufferedWeights {
  std::vector<double> shares = {};  // [M] factors; empty: 1
  bool unbiased = false;            // with NextClient::kDraw: DrawChances' factors
};

// Asynchronous rounds: each is a version of the model, made of the tasks of a buffer, in the order
// of (dispatch, place in its draw). A member has the weight w_i (n/a) (M/B), where its dispatch
// drew it with w_i among n of a clients that were there: w_i itself where all M were there and a
// buffer's B were drawn, and M/B where all M stay in flight (NextClient::kSame). `weights` multiply
// it. REQUIRES: as above.
std::unique_ptr<Turnout> make_buffered_turnout(const AsyncOptions& options, double empty_seconds,
                                               const Tasks& tasks, OnLine& on_line,
                                               BufferedWeights weights);

}  // namespace hanse
