// Symmetric matrices [d, d] as their upper triangle, row by row: d (d + 1)/2 float64.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

inline int64_t packed_size(int64_t d) { return d * (d + 1) / 2; }

// sqrt of the sum of the squares of all d^2 entries. Cost O(d^2).
double frobenius_norm(std::span<const double> packed, int64_t d);

}  // namespace hanse
