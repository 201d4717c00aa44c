// Rounds in which no update counts, and why: what a run says of them.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/base/state.hpp"
#include "hanse/protocol/turnout.hpp"

namespace hanse {

// Rank 0's. Its state: what it has counted.
class IdleRounds final : public Stateful {
 public:
  // A round in which some update counts, or none. Warns once, where none does in the first kFirst
  // rounds.
  void add(bool counts, const RoundTurnout& turnout);
  // "no update has counted in 10 of 10 rounds: ..."; empty where that is so in no more than half of
  // them.
  std::string remark() const;

  static constexpr int64_t kFirst = 3;

 private:
  void visit(StateFields& fields) override;
  std::string why() const;

  int64_t rounds_ = 0, idle_ = 0;
  // Idle rounds in which nobody was drawn, and those whose updates got no weight; in idle rounds,
  // clients that came late, were lost or whose updates were too old.
  int64_t nobody_ = 0, weightless_ = 0, late_ = 0, lost_ = 0, discarded_ = 0;
};

}  // namespace hanse
