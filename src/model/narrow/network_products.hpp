// Products of networks whose graph autograd keeps, in float32 or with factors in bfloat16.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

namespace hanse {

// In bfloat16 a factor is rounded to nearest even where a product reads it, also on the way back,
// where the gradient of the result is a factor of two products; sums, results and gradients are
// float32. In float32 each function is LibTorch's own.
class NetworkProducts {
 public:
  // Matrices that several products read: they are rounded once.
  struct Factor {
    Factor(const at::Tensor& matrices) : values(matrices) {}  // NOLINT(google-explicit-constructor)
    at::Tensor values;
    at::Tensor rounded;  // bfloat16; undefined: not yet
  };

  explicit NetworkProducts(bool narrow = false) : narrow_(narrow) {}

  Factor factor(const at::Tensor& matrices) const;

  // a b of [n, i, k] and [n, k, j]; and c + a b, where c has that shape but for sides of 1.
  at::Tensor multiply(const at::Tensor& a, const Factor& b) const;
  at::Tensor add(const at::Tensor& c, const at::Tensor& a, const Factor& b) const;

  // a b of [..., i, k] and [..., k, j] with the same sides before.
  at::Tensor multiply_any(const at::Tensor& a, const at::Tensor& b) const;

  // Convolution of images x [B, channels, height, width] in groups, and a bias [outputs];
  // undefined: none. In bfloat16 it reads float32 tensors of rounded values, which a GPU multiplies
  // exactly as TF32 where that is allowed.
  at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                      int64_t stride, int64_t padding, int64_t groups) const;

 private:
  bool narrow_;
};

}  // namespace hanse
