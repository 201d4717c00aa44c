// A round as all parts of a rank know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

namespace hanse {

class RoundPlan;

// How a participant starts that does not start as all others do.
struct TaskStart {
  int64_t round;                 // ClientTask's, as `repeat` and `steps`
  std::span<const float> model;  // [P] must stay until the run's end
  int64_t repeat = 0;
  int64_t steps = 0;
};

struct RoundContext {
  int64_t number;                          // from 1
  double start_s;                          // by settings.clock
  RoundPlan& plan;                         // its participants
  std::span<const float> model;            // [P] the received model
  std::span<const float> control;          // [control width] the server's control variate, or empty
  std::exception_ptr& failure;             // of this rank: attempt()
  std::span<const TaskStart> starts = {};  // of the plan's entries; empty: all start from `model`
  std::span<const TaskStart> ahead = {};   // of plan.ahead()
  int64_t repeat = 0, steps = 0;           // of one participant: of()

  // The round as the participant of that entry sees it.
  RoundContext of(std::size_t entry) const {
    RoundContext own = *this;
    if (starts.empty()) return own;
    return of(starts[entry]);
  }
  // The round as a participant with that start sees it.
  RoundContext of(const TaskStart& start) const {
    RoundContext own = *this;
    own.number = start.round;
    own.model = start.model;
    own.repeat = start.repeat;
    own.steps = start.steps;
    return own;
  }
};

}  // namespace hanse
