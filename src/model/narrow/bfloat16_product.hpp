// A product of matrices of bfloat16 numbers, whose sums and results are float32.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/ATen.h>

namespace hanse {

// out [n, i, j] <- a [n, i, k] b [n, k, j]: float32 and, within a matrix, one row behind the other;
// a and b are bfloat16. A GPU has cuBLAS's tensor cores for it; elsewhere it is a product of
// float32 tensors with the same values. Allocates nothing on a GPU where the matrices of a and b,
// or their transposes, lie one row behind the other. Throws Error when the GPU refuses.
void multiply_bfloat16(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

// The part of it that needs CUDA. Throws NotCompiled in a build without it.
void multiply_bfloat16_on_gpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

// Are the matrices [n, rows, columns] transposes of what lies one row behind the other?
inline bool is_turned(const at::Tensor& matrices) {
  return matrices.stride(1) == 1 && matrices.stride(2) != 1;
}

// Such matrices as BLAS takes them, column by column: it reads the transposes of what lies one row
// behind the other, and turns the others.
struct BlasMatrices {
  bool turned;
  int64_t step;    // from a column to the next
  int64_t stride;  // from a matrix to the next
};

inline BlasMatrices blas_matrices(const at::Tensor& matrices) {
  const bool turned = is_turned(matrices);
  const int64_t width = matrices.size(turned ? 1 : 2), step = matrices.stride(turned ? 2 : 1);
  return {turned, std::max({step, width, int64_t{1}}), matrices.stride(0)};
}

}  // namespace hanse
