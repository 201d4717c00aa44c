#include "tensor_loss.hpp"

namespace hanse {

at::Tensor tensor_loss(LossKind kind, const at::Tensor& z, const at::Tensor& targets,
                       int64_t reduction) {
  const at::Tensor y = targets.flatten();
  if (kind == LossKind::kSquaredError) return at::mse_loss(z.flatten(), y, reduction) / 2;
  if (kind == LossKind::kBinaryLogistic) {
    return at::binary_cross_entropy_with_logits(z.flatten(), y.eq(1).to(at::kFloat), {}, {},
                                                reduction);
  }
  return at::cross_entropy_loss(z.flatten(0, -2), y.to(at::kLong), {}, reduction);
}

at::Tensor targets_of(LossKind kind, const Batch& batch) {
  if (kind == LossKind::kSquaredError) {
    return at::from_blob(const_cast<float*>(batch.targets), {batch.rows}, at::kFloat);
  }
  return at::from_blob(const_cast<int32_t*>(batch.labels), {batch.rows}, at::kInt);
}

at::Tensor guessed_right(LossKind kind, const at::Tensor& z, const at::Tensor& labels) {
  const at::Tensor guess =
      kind == LossKind::kBinaryLogistic ? z.squeeze(-1).gt(0) : at::argmax(z, -1);
  return guess.to(at::kInt).eq(labels);
}

at::Tensor class_one_scores(const at::Tensor& z) {
  return z.size(-1) == 1 ? z.squeeze(-1) : z.select(-1, 1) - z.select(-1, 0);
}

}  // namespace hanse
