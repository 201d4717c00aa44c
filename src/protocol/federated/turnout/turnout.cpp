#include "hanse/protocol/turnout.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/rules/clock/round_clock.hpp"

namespace hanse {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The draw of those at these places alone.
Draw part_of(Draw draw, std::span<const int64_t> places) {
  if (places.size() == draw.size()) return draw;
  Draw part;
  for (const int64_t place : places) {
    const std::size_t i = to_index(place);
    part.clients.push_back(draw.clients[i]);
    part.counts.push_back(draw.counts[i]);
    part.probabilities.push_back(draw.probabilities[i]);
    part.weights.push_back(draw.weights[i]);
  }
  return part;
}

class TimedTurnout final : public Turnout {
 public:
  TimedTurnout(const ClockOptions& options, int64_t per_round, const Tasks& tasks, OnLine& on_line,
               CountedWeights weights)
      : carries_(options.carries()),
        partial_(options.makes_partial()),
        clock_(options, per_round, tasks, on_line),
        weights_(std::move(weights)) {}

  std::vector<int64_t> begin() override { return clock_.changes(); }
  RoundTurnout next(int64_t round, const DrawClients& draw) override {
    Draw drawn = draw.draw_round();
    const std::size_t n = drawn.size();
    const RoundTimes& times = clock_.play(round, drawn.clients, drawn.weights);
    RoundTurnout turnout;
    add_uncounted(drawn.clients, times.late, TaskState::kLate, times, turnout);
    add_uncounted(drawn.clients, times.lost, TaskState::kLost, times, turnout);
    turnout.draw = part_of(std::move(drawn), times.counted);
    turnout.spans.reserve(times.counted.size());
    turnout.times.durations.reserve(times.counted.size());
    for (const int64_t place : times.counted) {
      turnout.spans.push_back({times.start, times.known[to_index(place)]});
      turnout.times.durations.push_back(seconds_of(times.known[to_index(place)] - times.start));
    }
    if (partial_ || carries_) add_tasks(round, times, turnout);
    weigh(n, turnout.draw);
    for (const CarriedTask& task : times.carried) add_carried(task, turnout);
    if (carries_) turnout.kept = clock_.received_in_flight();
    keep_received(turnout);
    return turnout;
  }

  double seconds() const override { return seconds_of(clock_.now()); }
  void add_columns(Columns& columns) const override {
    clock_.add_columns(columns, weights_.unreachable_share);
  }

 private:
  void add_tasks(int64_t round, const RoundTimes& times, RoundTurnout& turnout) const {
    for (const int64_t steps : times.steps) {
      turnout.tasks.push_back({.received = round - 1, .steps = steps});
    }
    turnout.times.staleness.assign(times.steps.size(), 0);
  }

  // Sets the weights of a draw of n, of whom those in `counted` count.
  void weigh(std::size_t n, Draw& counted) const {
    for (std::size_t i = 0; i < counted.size(); ++i) {
      double& weight = counted.weights[i];
      switch (weights_.estimator) {
        case Estimator::kNormalized: break;
        case Estimator::kUnbiased:
          if (n > counted.size()) {
            weight *= static_cast<double>(n) / static_cast<double>(counted.size());
          }
          break;
        case Estimator::kArrival: weight = 1 / weights_.inclusion[to_index(counted.clients[i])];
      }
    }
  }

  static void add_uncounted(std::span<const int64_t> drawn, std::span<const int64_t> places,
                            TaskState state, const RoundTimes& times, RoundTurnout& turnout) {
    for (const int64_t place : places) {
      turnout.uncounted.push_back({.client = drawn[to_index(place)],
                                   .state = state,
                                   .span = {times.start, times.known[to_index(place)]},
                                   .received = times.round - 1});
    }
  }

  static void add_carried(const CarriedTask& task, RoundTurnout& turnout) {
    turnout.draw.everyone = false;
    turnout.draw.clients.push_back(task.client);
    turnout.draw.counts.push_back(1);
    turnout.draw.probabilities.push_back(kUnknown);
    turnout.draw.weights.push_back(task.weight);
    turnout.times.staleness.push_back(task.staleness);
    turnout.times.durations.push_back(seconds_of(task.known - task.start));
    turnout.spans.push_back({task.start, task.known});
    turnout.tasks.push_back({.received = task.round - 1});
  }

  void visit(StateFields& fields) override { fields.part("clock", clock_); }

  bool carries_, partial_;
  RoundClock clock_;
  CountedWeights weights_;
};

}  // namespace

void keep_received(RoundTurnout& turnout) {
  for (const TaskOrigin& task : turnout.tasks) turnout.kept.push_back(task.received);
  std::ranges::sort(turnout.kept);
  turnout.kept.erase(std::unique(turnout.kept.begin(), turnout.kept.end()), turnout.kept.end());
}

std::unique_ptr<Turnout> make_timed_turnout(const ClockOptions& options, int64_t per_round,
                                            const Tasks& tasks, OnLine& on_line,
                                            CountedWeights weights) {
  return std::make_unique<TimedTurnout>(options, per_round, tasks, on_line, std::move(weights));
}

}  // namespace hanse
