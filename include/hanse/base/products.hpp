// Inner products of float32 vectors, summed in float64.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// sum_i a_i b_i. The order of summation depends on the length alone, so the bits are the same on
// every processor. REQUIRES: equal lengths. Cost: one pass over memory.
double inner_product(std::span<const float> a, std::span<const float> b);

// Adds rows[i].rows[j] of rows of n values to gram[i * rows.size() + j], for j <= i and i >= known:
// the lower triangle of a Gram matrix of which the first `known` rows are there. What is added has
// the bits of inner_product up to 4096 values. REQUIRES: room for the whole matrix. Cost: one pass
// over all rows together.
void add_inner_products(std::span<const float* const> rows, std::size_t known, int64_t n,
                        std::span<double> gram);

// Copies the lower triangle of a matrix [size, size] to the upper one.
void mirror(std::span<double> gram, std::size_t size);

}  // namespace hanse
