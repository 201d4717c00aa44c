// Sequence and residual networks, written once more step by step.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace hanse {

// Products in any type; `narrow`: their factors are rounded to bfloat16, also on the way back,
// where the gradient of the result is a factor.
struct ReferenceProducts {
  bool narrow = false;
  at::Tensor multiply(const at::Tensor& a, const at::Tensor& b) const;
  at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel, int64_t stride,
                      int64_t padding) const;
};

// Logits [rows, outputs] of x [rows, sample shape ...]; `leaves` in the layout's order.
at::Tensor lstm_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x,
                       const ReferenceProducts& products = {});
at::Tensor transformer_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x,
                              const ReferenceProducts& products = {});  // 2 heads
at::Tensor resnet_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x, int64_t groups,
                         const ReferenceProducts& products = {});  // groups of each norm

}  // namespace hanse
