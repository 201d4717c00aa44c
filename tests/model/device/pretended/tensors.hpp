// Tensors of the pretended GPU.
#pragma once

#include <ATen/ATen.h>

namespace hanse::pretended {

inline bool is_here(const at::Tensor& tensor) { return tensor.device().type() == at::kPrivateUse1; }

// The same memory, for the device's own work on the host.
at::Tensor host_view(const at::Tensor& tensor);

// A tensor of the same values and strides. The stream has come so far.
at::Tensor copy_here(const at::Tensor& on_host);

// Gives a tensor that has no values this shape, and memory.
void give_shape(const at::Tensor& tensor, at::IntArrayRef sizes);

}  // namespace hanse::pretended
