// A row that clients send beside their updates, such as the change of a control variate: its
// weighted sum over clients and ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "hanse/sums/update_sum.hpp"

namespace hanse {

class SecondRow {
 public:
  // `width` 0: clients send none. REQUIRES: as UpdateSum.
  SecondRow(int64_t width, int64_t addends, Reduction reduction)
      : row_(static_cast<std::size_t>(width)), sum_(width, addends, reduction) {}

  bool empty() const { return row_.empty(); }
  // [width] of the client in training; zeros before it.
  std::span<float> row() { return row_; }
  void forget_row() { std::fill(row_.begin(), row_.end(), 0.0F); }
  // Adds weight * row(), and forgets it.
  FoldResult fold(double weight) {
    const FoldResult folded = sum_.fold(row_, {}, weight);
    forget_row();
    return folded;
  }

  void reduce(Communicator& comm) { sum_.reduce(comm, 0); }
  // The sum, on rank 0 after reduce(), until the next fold(); clears it for the next round.
  std::span<const float> take() {
    total_.resize(row_.size());
    sum_.take(total_);
    return total_;
  }
  void clear() { sum_.clear(); }

 private:
  std::vector<float> row_;    // [width]
  std::vector<float> total_;  // [width], rank 0
  UpdateSum sum_;
};

}  // namespace hanse
