// Hessian-vector products of networks: autograd of autograd's gradient, features and head in one
// graph.
#include <algorithm>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "autograd.hpp"
#include "image_input.hpp"
#include "loss.hpp"

namespace hanse {

namespace {

at::Tensor mean_loss(LossKind kind, const at::Tensor& z, const Batch& batch) {
  if (kind == LossKind::kSquaredError) {
    const auto y = at::from_blob(const_cast<float*>(batch.targets), {batch.rows}, at::kFloat);
    return (z.flatten() - y).pow(2).mean() / 2;
  }
  const auto y = at::from_blob(const_cast<int32_t*>(batch.labels), {batch.rows}, at::kInt);
  if (kind == LossKind::kCrossEntropy) return at::cross_entropy_loss(z, y.to(at::kLong));
  return at::binary_cross_entropy_with_logits(z.flatten(), y.eq(1).to(at::kFloat));
}

}  // namespace

void AutogradModel::hessian_vector(std::span<const float> row, const Batch& batch,
                                   std::span<const float> v, std::span<float> out) {
  std::vector<at::Tensor> tensors, directions;
  for (const ParameterSlot& slot : layout_.slots()) {
    tensors.push_back(slot_view(row.data(), slot).requires_grad_());
    directions.push_back(slot_view(v.data(), slot));
  }
  const std::vector<at::Tensor> leaves(tensors.begin(),
                                       tensors.begin() + static_cast<std::ptrdiff_t>(n_leaves_));
  at::Tensor x = features(leaves, image_input(batch, sample_shape_)).flatten(1);
  for (std::size_t i = n_leaves_; i < tensors.size(); i += 2) {
    x = at::linear(at::relu(x), tensors[i], tensors[i + 1]);
  }
  const auto gradients = torch::autograd::grad({mean_loss(loss_, x, batch)}, tensors, {},
                                               /*retain_graph=*/true, /*create_graph=*/true);
  at::Tensor along = at::zeros({});  // <gradient, v>
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    along = along + (gradients[i] * directions[i]).sum();
  }
  const auto products = torch::autograd::grad({along}, tensors, {}, /*retain_graph=*/false,
                                              /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ParameterSlot& slot = layout_.slots()[i];
    const at::Tensor used =
        products[i].defined() ? products[i].contiguous() : at::zeros(slot.shape);
    std::copy_n(used.data_ptr<float>(), slot.size, out.data() + slot.offset);
  }
}

}  // namespace hanse
