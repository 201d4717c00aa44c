// Sequence and residual networks, written once more step by step.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace hanse {

// Logits [rows, outputs] of x [rows, sample shape ...]; `leaves` in the layout's order.
at::Tensor lstm_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x);
at::Tensor transformer_logits(const std::vector<at::Tensor>& leaves,
                              const at::Tensor& x);  // 2 heads
at::Tensor resnet_logits(const std::vector<at::Tensor>& leaves, const at::Tensor& x,
                         int64_t groups);  // of each norm

}  // namespace hanse
