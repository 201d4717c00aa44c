// Clients whose tasks take a given time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/rules/clock/tasks.hpp"

namespace hanse {

// A task has one step unless a test says otherwise; messages take no time.
class TickTimes final : public TaskTimes {
 public:
  explicit TickTimes(std::vector<Ticks> durations) : durations_(std::move(durations)) {}

  int64_t clients() const { return std::ssize(durations_); }
  int64_t steps(int64_t) const override { return steps_of_all; }
  Phases phases(int64_t client, int64_t, int64_t steps) const override {
    return {.down = 0, .compute = durations_[to_index(client)] * steps, .up = 0};
  }
  RowBytes bytes() const override { return {.down = 100, .up = 10}; }

  int64_t steps_of_all = 1;

 private:
  std::vector<Ticks> durations_;  // [M] of a step
};

}  // namespace hanse
