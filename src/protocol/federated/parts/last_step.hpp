// The last aggregate: what the rule made of the last round that had a step, before the server's
// optimizer; 0 in the first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

// Rank 0's.
class LastStep final : public RoundPart {
 public:
  explicit LastStep(int64_t n_params) : values_(to_index(n_params)) {}

  std::span<const float> values() const { return values_; }  // [P]

  void mixed(int64_t begin, std::span<const float> update) override {
    std::ranges::copy(update, values_.begin() + begin);
  }
  const char* name() const override { return "weighing"; }

 private:
  void visit(StateFields& fields) override { fields.fixed("last_step", values_); }

  std::vector<float> values_;
};

}  // namespace hanse
