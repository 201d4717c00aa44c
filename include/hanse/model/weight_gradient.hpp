// The gradient of a dense layer's weight over a batch, in factors.
#pragma once

#include <cstdint>

namespace hanse {

// deltas^T inputs, the gradient of the tensor [out, in] at `offset` of a parameter row.
struct WeightGradient {
  int64_t offset, out, in, samples;
  const float* deltas;  // [samples, out]
  const float* inputs;  // [samples, in]
};

}  // namespace hanse
