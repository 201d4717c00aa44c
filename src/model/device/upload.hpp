// From the host's memory to a device while that works on.
#pragma once

#include <ATen/ATen.h>

namespace hanse {

// Zeros in the host's memory, from which a GPU reads while the host goes on.
inline at::Tensor staged(at::IntArrayRef shape, at::ScalarType type, const at::Device& device) {
  return at::zeros(shape, at::TensorOptions(type).pinned_memory(!device.is_cpu()));
}

inline at::Tensor sent(const at::Tensor& staged, const at::Device& device) {
  return staged.to(device, staged.scalar_type(), /*non_blocking=*/true);
}

}  // namespace hanse
