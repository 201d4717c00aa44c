// Inner products, summed in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hanse {

// sum_i a_i b_i. The order of summation depends on the length alone, so the bits are the same on
// every processor. REQUIRES: equal lengths. Cost: one pass over memory.
double inner_product(std::span<const float> a, std::span<const float> b);

// sum_i a_i b_i, added in the order of i. REQUIRES: equal lengths.
inline double inner_product(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Adds left[i].right[j] of rows of n values to table[i * right.size() + j]. Each product has the
// bits of inner_product up to 8192 values. Cost: one pass over all rows together.
void add_inner_products(std::span<const float* const> left, std::span<const float* const> right,
                        int64_t n, std::span<double> table);

// Adds rows[i].rows[j] to gram[i * rows.size() + j] for j <= i, as add_inner_products does, for a
// little more than half of its cost; the entries above the diagonal are undefined afterwards.
void add_gram(std::span<const float* const> rows, int64_t n, std::span<double> gram);

// Copies the lower triangle of a matrix [size, size] to the upper one.
void mirror(std::span<double> gram, std::size_t size);

}  // namespace hanse
