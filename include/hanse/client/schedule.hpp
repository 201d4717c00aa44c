// How a client's step size moves over the rounds of a run, or over the steps of each round.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/client/options.hpp"

namespace hanse {

template <class Options>
struct KindRow;  // base/kind.hpp

class Schedule {
 public:
  // Throws InvalidArgument: options.schedule.kind is no schedule.
  explicit Schedule(const StepOptions& options = {});

  // Does it move from step to step, anew in every round?
  bool moves_within_rounds() const { return options_.schedule.over == ScheduleOver::kSteps; }
  // The step size of a round (from 1); options.lr in all of them where it moves within rounds.
  double rate(int64_t round) const;
  // The size of a step (from 0) of the `steps` that a client makes in a round.
  double rate(int64_t round, int64_t step, int64_t steps) const;

  // A share of lr at place t of `length`, both behind the warm-up.
  using Factor = double (*)(const StepOptions& options, double t, double length);

 private:
  double factor_at(int64_t t, int64_t length) const;

  StepOptions options_;
  Factor factor_;
  bool ends_;  // stays where it is behind its length
};

// The rows of client.schedule.
std::vector<KindRow<ClientOptions>> schedule_kinds();

}  // namespace hanse
