// What clients send beside their updates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// The row that clients send beside their updates: the change of a control variate, and what a stage
// adds. Sums it by weights over clients and ranks.
class SecondRow {
 public:
  // `width` 0: clients send none. REQUIRES: as UpdateSum.
  SecondRow(int64_t width, int64_t addends, Reduction reduction)
      : row_(to_index(width)), sum_(width, addends, reduction) {}

  // The row [width] of the client in training; zeros before it.
  std::span<float> row() { return row_; }
  void forget_row() { std::fill(row_.begin(), row_.end(), 0.0F); }
  // Adds weight * row(), and forgets it. A row that is not finite adds nothing.
  FoldResult fold(double weight) {
    FoldResult folded{.in_range = false};
    if (std::ranges::all_of(row_, [](float value) { return std::isfinite(value); })) {
      folded = sum_.fold(row_, {}, weight);
    }
    forget_row();
    return folded;
  }

  // The sum, on rank 0 until the next call; empty elsewhere and without a row. Collective.
  std::span<const float> reduce(Communicator& comm) {
    if (row_.empty()) return {};
    sum_.reduce(comm, 0);
    if (comm.rank() != 0) {
      sum_.clear();
      return {};
    }
    total_.resize(row_.size());
    sum_.take(total_);
    return total_;
  }

 private:
  std::vector<float> row_;    // [width]
  std::vector<float> total_;  // [width], rank 0
  UpdateSum sum_;
};

}  // namespace hanse
