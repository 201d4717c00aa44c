#include "narrow/bfloat16_product.hpp"

namespace hanse {

void multiply_bfloat16(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (out.numel() == 0) return;
  if (out.is_cuda()) return multiply_bfloat16_on_gpu(out, a, b);
  at::bmm_out(out, a.to(at::kFloat), b.to(at::kFloat));
}

}  // namespace hanse
