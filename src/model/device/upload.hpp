// Copies from the host's memory to a device.
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

// Copies `values` to the rows of a tensor from `begin` on; waits until they have been read.
inline void upload(at::Tensor& tensor, int64_t begin, int64_t rows, const void* values) {
  at::Tensor place = tensor.narrow(0, begin, rows);
  place.copy_(at::from_blob(const_cast<void*>(values), place.sizes(), tensor.scalar_type()));
}

}  // namespace hanse
