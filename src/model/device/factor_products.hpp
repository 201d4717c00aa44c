// The products of a NetworkGradient, in float32 or with factors in bfloat16.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/ATen.h>

#include "narrow/bfloat16_product.hpp"

namespace hanse {

// In bfloat16 the factors are rounded to nearest even into memory that is allocated once, which
// recorded kernels find again.
class FactorProducts {
 public:
  // `most`: values of the largest factor.
  FactorProducts(bool narrow, int64_t most, const at::TensorOptions& options) {
    if (!narrow) return;
    left_ = at::empty({most}, options.dtype(at::kBFloat16));
    right_ = at::empty_like(left_);
  }

  // out [n, i, j] <- a [n, i, k] b [n, k, j]
  void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) const {
    if (!left_.defined()) {
      at::bmm_out(out, a, b);
    } else {
      multiply_bfloat16(out, rounded(a, left_), rounded(b, right_));
    }
  }

 private:
  // The matrices' values, which keep their order in memory.
  static at::Tensor rounded(const at::Tensor& matrices, const at::Tensor& memory) {
    const bool turned = is_turned(matrices);
    const at::Tensor source = turned ? matrices.transpose(1, 2) : matrices;
    const at::Tensor copy = memory.narrow(0, 0, matrices.numel()).view(source.sizes());
    copy.copy_(source);
    return turned ? copy.transpose(1, 2) : copy;
  }

  at::Tensor left_, right_;  // bfloat16; undefined: products are float32
};

}  // namespace hanse
