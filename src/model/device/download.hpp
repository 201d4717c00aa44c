// The one way from a device to the host's memory: it waits for the device and is counted.
#pragma once

#include <atomic>
#include <cstdint>

#include <ATen/ATen.h>

namespace hanse {

inline std::atomic<int64_t>& download_count() {
  static std::atomic<int64_t> count{0};
  return count;
}

// The tensor itself, when it lies there.
inline at::Tensor downloaded(const at::Tensor& values) {
  ++download_count();
  return values.cpu();
}

// Copies to memory for values.numel() values of its type.
inline void download(const at::Tensor& values, void* to) {
  ++download_count();
  at::from_blob(to, values.sizes(), values.scalar_type()).copy_(values);
}

}  // namespace hanse
