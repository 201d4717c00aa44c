// The inner loops of UpdateSum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

struct FoldSums {
  static constexpr std::size_t kLanes = 8;
  double squared[kLanes] = {};  // sum of delta^2 over the entries i with i % 8 = lane
  bool in_range = true;         // false: an addend was NaN or above the limit, and left out
};

struct FoldRow {
  float* values;
  double scale;
};

inline constexpr std::size_t kMostFolded = 2;

// The n entries to which rows are added.
struct FoldTarget {
  int64_t* fixed;
  std::size_t n;
  double limit;   // for |scale * delta|, below 2^63
  bool is_fresh;  // the old values do not count; it begins on a cache line
};

// For all entries and each of `rows`, 1 to kMostFolded: fixed += round(scale * (row - theta)), to
// nearest even; row = theta. Without theta (null), fixed += round(scale * row), and the rows stay.
// Addends above the limit are left out and reported, in the row's `sums`.
using FoldKernel = void (*)(std::span<const FoldRow> rows, const float* theta,
                            const FoldTarget& target, FoldSums* sums);

// This processor's kernels, the fastest first, plain loops last; all give the same bits.
std::vector<FoldKernel> fold_kernels();

}  // namespace hanse
