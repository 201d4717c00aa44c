// The products of dense layers in bfloat16 (src/README.md, "Products in bfloat16").
#pragma once

#include <cstdint>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "kernels/bfloat16_kernels.hpp"

namespace hanse {

// Works for one layer after another: factors are packed for each product, a weight once on the way
// forwards and once backwards. Memory: four bytes a value of the largest layer's batch of inputs
// and outputs, and a part of its weight of 256 KB, or of 32 of its columns. Each call flushes
// subnormals.
class Bfloat16Dense {
 public:
  explicit Bfloat16Dense(const Bfloat16Kernels& kernels = bfloat16_kernels()) : kernels_(kernels) {}

  // y [rows, out] <- y + x W^T, x [rows, in], W [out, in].
  void add_product(int64_t rows, int64_t out, int64_t in, const float* x, const float* w, float* y);

  // GradientTarget::add(): dx [samples, in] <- deltas w unless dx is null, then w's gradient goes
  // to the target. REQUIRES: a step does not take gradients in factors, and there is no record.
  void add_gradient(const WeightGradient& g, const float* w, const GradientTarget& target,
                    float* dx);

 private:
  void take_back(const WeightGradient& g, const float* w, float* dx);
  // The product of left_ and w [k, n], or the transpose of w [n, k], which is packed part by part.
  void multiply(Bfloat16Product product, FactorRows w, bool turned);
  // c [outputs, in] <- keep c + scale times the gradient of the rows of w with these deltas.
  void multiply_gradient(const WeightGradient& g, FactorRows deltas, int64_t outputs, float scale,
                         float keep, float* c);

  const Bfloat16Kernels& kernels_;
  AlignedFloats left_;
  ColumnFactor columns_;
  PackedPairs right_;
};

}  // namespace hanse
