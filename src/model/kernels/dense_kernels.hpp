// Products of a batch of few rows with a weight [out, in]. OpenBLAS copies the operands of small
// products, or has kernels for them on some processors alone: the products of a step of logistic
// regression take 0.4 times as long with AVX2. What comes next of a weight that no cache beside the
// core holds is fetched while a part is multiplied.
//
// Sums have one order on all processors.
#pragma once

#include <cstdint>

#include <cblas.h>

#include "hanse/model/weight_gradient.hpp"
#include "vector_families.hpp"

namespace hanse {

// The outputs [o, o + outputs) and the inputs [i, i + inputs) of a weight.
struct WeightTile {
  int64_t o, outputs, i, inputs;
};

inline constexpr int64_t kFewRows = 64;
inline constexpr WeightTile kDenseTile = {0, 60, 0, 1024};  // stays in the second cache

// The kernels of one family of processors.
struct DenseKernels {
  // y [rows, out] += x [rows, in] w^T
  void (*add_product)(int64_t rows, int64_t out, int64_t in, const float* x, const float* w,
                      float* y);

  // dx [samples, in] <- deltas w for a tile with the first output, += for later tiles.
  void (*take_back)(const WeightGradient& g, const float* w, const WeightTile& tile, float* dx);

  // c [outputs, c_line] <- keep c + scale times the tile of the gradient; keep 0: the old values
  // are never read.
  void (*multiply_tile)(const WeightGradient& g, const WeightTile& tile, float scale, float keep,
                        float* c, int64_t c_line);
};

const DenseKernels& dense_kernels(VectorFamily family = fastest_family());

// Does a cache beside the core hold such a weight?
inline bool is_cached(int64_t out, int64_t in) {
  constexpr int64_t kCachedFloats = 256 << 10;  // 1 MiB
  return out * in <= kCachedFloats;
}

// The kernels, which take one thread, where they are faster than OpenBLAS for so many rows; else
// null: a weight that no cache holds is worth further threads.
const DenseKernels* own_kernels(int64_t rows, int64_t out, int64_t in);

}  // namespace hanse
