// Hessian-vector products of networks: autograd of autograd's gradient, features and head in one
// graph.
#include <algorithm>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "autograd.hpp"
#include "image_input.hpp"
#include "network_forward.hpp"
#include "tensor_loss.hpp"

namespace hanse {

void AutogradModel::hessian_vector(std::span<const float> row, const Batch& batch,
                                   std::span<const float> v, std::span<float> out) {
  std::vector<at::Tensor> tensors, directions;
  for (const ParameterSlot& slot : layout_.slots()) {
    tensors.push_back(slot_view(row.data(), slot).requires_grad_());
    directions.push_back(slot_view(v.data(), slot));
  }
  const std::vector<at::Tensor> leaves(tensors.begin(),
                                       tensors.begin() + static_cast<std::ptrdiff_t>(n_leaves_));
  const at::Tensor x = at::relu(features(leaves, image_input(batch, sample_shape_)).flatten(1));
  const at::Tensor logits = dense_layers(std::span(tensors).subspan(n_leaves_), true, x, {});
  const at::Tensor loss = tensor_loss(loss_, logits, targets_of(loss_, batch), at::Reduction::Mean);
  const auto gradients = torch::autograd::grad({loss}, tensors, {}, /*retain_graph=*/true,
                                               /*create_graph=*/true);
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
