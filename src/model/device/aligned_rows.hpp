// Memory for rows of parameters.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

namespace hanse {

// Zeros [clients, n], each row at a multiple of 128 bytes: libraries then read it by 16 bytes at
// once. rows.stride(0) >= n.
inline at::Tensor aligned_rows(int64_t clients, int64_t n, const at::TensorOptions& options) {
  constexpr int64_t kFloats = 32;
  const int64_t stride = (n + kFloats - 1) / kFloats * kFloats;
  return at::zeros({clients, stride}, options).narrow(1, 0, n);
}

// Others of the same form.
inline at::Tensor aligned_like(const at::Tensor& rows) {
  return aligned_rows(rows.size(0), rows.size(1), rows.options());
}

}  // namespace hanse
