// Large numbers that become float32, which holds all whole numbers only up to 2^24.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "hanse/base/index.hpp"

namespace hanse {

// Counts, for each column, the numbers beyond 2^24 that float32 cannot hold, and how many different
// ones stay different. Cost: a comparison a number; one beyond 2^24 takes two look-ups, and memory
// for the first 65,536 different ones of its column.
class RoundedNumbers {
 public:
  void see(double value, int64_t column = 0) {
    if (to_index(column) >= seen_.size()) seen_.resize(to_index(column) + 1);
    ++seen_[to_index(column)];
    if (!(std::abs(value) <= kLargestWithoutGap)) see_large(value, column);
  }

  // The columns with a number that float32 cannot hold, in ascending order.
  std::vector<int64_t> columns() const;

  bool is_rounded(int64_t column) const {
    const auto found = large_.find(column);
    return found != large_.end() && found->second.rounded > 0;
  }

  // For a warning: "column 't': 40 of 40 numbers are not exact in float32, 40 different ones become
  // 1", and so on for the columns with such whole numbers, or with different numbers that become
  // one; empty: there are none. `name` gives a column's name in messages.
  std::string text(const std::function<std::string(int64_t column)>& name) const;

 private:
  static constexpr double kLargestWithoutGap = 1 << 24;
  struct Large {
    int64_t rounded = 0;
    bool whole = false;  // one of the rounded numbers is whole
    std::unordered_set<double> values;
    std::unordered_set<float> in_float32;
  };

  void see_large(double value, int64_t column);

  std::vector<int64_t> seen_;  // by column
  std::map<int64_t, Large> large_;
};

}  // namespace hanse
