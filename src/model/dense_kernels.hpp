// Products of a batch of few rows with a weight [out, in] that no cache beside the core holds, with
// AVX-512. Each pass reads the weight from memory once and computes meanwhile: what comes next is
// fetched while a part is multiplied, which OpenBLAS does not do for few rows. With 20 rows of 3136
// inputs and 2048 outputs the passes of a step take 0.74 times as long.
#pragma once

#include <cstdint>

#include <cblas.h>

#include "hanse/model/weight_gradient.hpp"

namespace hanse {

// The outputs [o, o + outputs) and the inputs [i, i + inputs) of a weight.
struct WeightTile {
  int64_t o, outputs, i, inputs;
};

inline constexpr int64_t kStreamedRows = 64;
inline constexpr WeightTile kStreamedTile = {0, 60, 0, 1024};  // stays in the second cache

// Has this processor the kernels, and does OpenBLAS use AVX-512, too?
bool can_stream();

// Are they faster than OpenBLAS? They take whole vectors of inputs, and one thread.
inline bool is_streamed(int64_t rows, int64_t out, int64_t in) {
  constexpr int64_t kCachedFloats = 256 << 10;  // 1 MiB
  return out * in > kCachedFloats && rows <= kStreamedRows && in % 16 == 0 &&
         openblas_get_num_threads() == 1 && can_stream();
}

// y [rows, out] += x [rows, in] w^T. REQUIRES, as the others: is_streamed(rows, out, in).
void add_streamed_product(int64_t rows, int64_t out, int64_t in, const float* x, const float* w,
                          float* y);

// dx [samples, in] <- deltas w of the tile with the first output, += of the others. REQUIRES, as
// the next: whole vectors of inputs, and at most kStreamedTile.outputs.
void take_back_streamed(const WeightGradient& g, const float* w, const WeightTile& tile, float* dx);

// c [outputs, c_line] <- keep c + scale times the tile of the gradient; keep 0: the old values are
// never read.
void multiply_streamed_tile(const WeightGradient& g, const WeightTile& tile, float scale,
                            float keep, float* c, int64_t c_line);

}  // namespace hanse
