// The inner loops of UpdateSum.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hanse {

struct FoldSums {
  static constexpr std::size_t kLanes = 8;
  double squared[kLanes] = {};  // sum of delta^2 over the entries i with i % 8 = lane
  bool in_range = true;         // false: an addend was NaN or above the limit, and left out
};

// For n entries: fixed += round(scale * (row - theta)), to nearest even; row = theta. Without theta
// (null), fixed += round(scale * row), and the row stays. Addends with |scale * delta| > limit are
// left out and reported. REQUIRES: limit < 2^63.
using FoldKernel = FoldSums (*)(float* row, const float* theta, int64_t* fixed, std::size_t n,
                                double scale, double limit);

FoldSums fold_plain(float* row, const float* theta, int64_t* fixed, std::size_t n, double scale,
                    double limit);

// The fastest kernel of this processor; all give the same bits.
FoldKernel best_fold_kernel();

}  // namespace hanse
