// Products of a batch of few rows with a weight [out, in] that no cache beside the core holds. Each
// pass reads the weight from memory once and computes meanwhile: what comes next is fetched while a
// part is multiplied, which OpenBLAS does not do for few rows. With 20 rows of 3136 inputs and 2048
// outputs the passes of a step take 0.74 times as long with AVX-512.
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

inline constexpr int64_t kStreamedRows = 64;
inline constexpr WeightTile kStreamedTile = {0, 60, 0, 1024};  // stays in the second cache

// The kernels of one family of processors. All REQUIRE at most kStreamedRows rows, and whole
// vectors of 16 inputs.
struct DenseKernels {
  // y [rows, out] += x [rows, in] w^T
  void (*add_product)(int64_t rows, int64_t out, int64_t in, const float* x, const float* w,
                      float* y);

  // dx [samples, in] <- deltas w for a tile with the first output, += for later tiles. REQUIRES, as
  // multiply_tile(): at most kStreamedTile.outputs.
  void (*take_back)(const WeightGradient& g, const float* w, const WeightTile& tile, float* dx);

  // c [outputs, c_line] <- keep c + scale times the tile of the gradient; keep 0: the old values
  // are never read.
  void (*multiply_tile)(const WeightGradient& g, const WeightTile& tile, float scale, float keep,
                        float* c, int64_t c_line);
};

const DenseKernels& dense_kernels(VectorFamily family = fastest_family());

// Are these kernels, which take one thread, faster than OpenBLAS here?
bool is_streamed(int64_t rows, int64_t out, int64_t in);

}  // namespace hanse
