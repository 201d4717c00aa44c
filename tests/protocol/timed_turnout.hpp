// A turnout of all who are drawn, with given times.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "hanse/protocol/turnout.hpp"

namespace hanse {

class TimedTurnout final : public Turnout {
 public:
  using Times = std::function<WorkTimes(int64_t round, const Draw& draw)>;
  explicit TimedTurnout(Times times) : times_(std::move(times)) {}

  RoundTurnout next(int64_t round, const DrawClients& draw) override {
    Draw drawn = draw.draw_round();
    WorkTimes times = times_(round, drawn);
    return {.draw = std::move(drawn), .times = std::move(times)};
  }
  double seconds() const override { return 0; }

 private:
  Times times_;
};

}  // namespace hanse
