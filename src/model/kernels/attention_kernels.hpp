// What an encoder layer does beside its dense layers: attention, a head of a sample at a time, and
// layer norm.
#pragma once

#include <cstdint>

#include "hanse/base/aligned.hpp"
#include "vector_families.hpp"

namespace hanse {

// One head of one sample (Vaswani et al. 2017): y = dropout(softmax(scale q k^T)) v. Vectors of
// neighbouring positions are `stride` floats apart; kernels read up to 16 floats behind the last.
struct AttentionHead {
  int64_t length, width;  // positions, and values of a vector
  int64_t stride;
  const float *q, *k, *v;       // [length, width]
  float scale;                  // of the scores
  bool causal = false;          // position i looks at positions j <= i alone
  bool narrow = false;          // factors are bfloat16 numbers: q, k and v are, others are rounded
  const float* mask = nullptr;  // [length, length] of dropout; null: none
  float* shares = nullptr;  // [length, line()] the softmax, for the way back; null: none follows

  // Floats from row to row of the shares.
  int64_t line() const { return whole_lines(length); }
};

// What attend_back() reads and writes.
struct AttentionDeltas {
  const float* y;  // [length, width] the loss's gradient by y, rounded in a narrow head
  int64_t y_stride;
  float *q, *k, *v;  // [length, width] those by q, k and v, `stride` of the head apart
};

// y = weight n + bias, n = (z - mean) / sqrt(variance + epsilon) of each row of z = x + mask added;
// without mask where it is null.
struct LayerNorm {
  int64_t rows, width;
  const float *x, *added, *mask;  // [rows, width]
  const float *weight, *bias;     // [width]
  float epsilon;
  float* normal;    // [rows, width] n
  float* inverses;  // [rows] 1 / sqrt(variance + epsilon)
  float* y;         // [rows, width]
};

// dz from dy.
struct LayerNormBack {
  int64_t rows, width;
  const float *delta, *normal;  // [rows, width] dy and n
  const float *inverses, *weight;
  float* dz;
};

// The kernels of one family of processors. Each operation is rounded once and in one order, so that
// all families have the same bits: a sum over a row has 16 lanes, which are halved in the end.
struct AttentionKernels {
  static constexpr int64_t kTileRows = 12;  // positions that are taken together

  // Cost: 4 length^2 width flops, half of them in a causal head, and an exponential a pair. `room`
  // has room_floats().
  void (*attend)(const AttentionHead& head, float* y, int64_t y_stride, float* room);
  // Twice as many flops.
  void (*attend_back)(const AttentionHead& head, const AttentionDeltas& deltas, float* room);

  void (*normalize)(const LayerNorm& norm);
  void (*normalize_back)(const LayerNormBack& norm);

  // sums [width] <- those of the columns of d [rows, width]; products likewise, of d n.
  void (*sum_columns)(int64_t rows, int64_t width, const float* d, const float* n, float* sums,
                      float* products);

  // to [n] <- n values in bfloat16, subnormals as zeros; to may be from.
  void (*round)(const float* from, int64_t n, float* to);
};

// The memory that attend() or, if larger, attend_back() takes.
inline int64_t room_floats(int64_t length, int64_t width) {
  const int64_t tile = AttentionKernels::kTileRows;
  return (width + 2 * (length + tile)) * whole_lines(length) + tile * whole_lines(width);
}

const AttentionKernels& attention_kernels(VectorFamily family = fastest_family());

}  // namespace hanse
