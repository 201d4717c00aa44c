#include "networks/graph.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "layers/dropout.hpp"
#include "networks/autocast.hpp"

namespace hanse {

const std::vector<at::Tensor>& GraphModel::leaves(const float* row) {
  if (row == leaves_row_) return leaves_;
  leaves_.clear();
  for (const ParameterSlot& slot : layout_.slots()) {
    leaves_.push_back(slot_view(row, slot).requires_grad_());
  }
  leaves_row_ = row;
  return leaves_;
}

float* GraphModel::forward(const float* row, const Batch& batch, RandomStream* noise) {
  const at::AutoGradMode training(noise != nullptr);
  const std::vector<at::Tensor>& used = leaves(row);
  const at::Tensor output = in_precision(
      is_bfloat16(), at::kCPU, [&] { return graph(used, batch, noise, representation_); });
  if (noise != nullptr) output_ = output;
  logits_ = output.detach().clone(at::MemoryFormat::Contiguous);
  return logits_.data_ptr<float>();
}

const float* GraphModel::representation() {
  represented_ = representation_.detach().to(at::kFloat).contiguous();
  return represented_.data_ptr<float>();
}

void GraphModel::backward(const float*, const Batch&, const GradientTarget& target) {
  const at::Tensor delta = logits_.view(output_.sizes());
  std::vector<at::Tensor> wanted;
  std::vector<const ParameterSlot*> slots;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const ParameterSlot& slot = layout_.slots()[i];
    if (!target.wants(slot.offset)) continue;
    wanted.push_back(leaves_[i]);
    slots.push_back(&slot);
  }
  if (!wanted.empty()) {
    std::vector<at::Tensor> outputs{output_}, deltas{delta};
    if (representation_delta() != nullptr) {
      outputs.push_back(representation_);
      deltas.push_back(at::from_blob(const_cast<float*>(representation_delta()),
                                     representation_.sizes(), at::kFloat)
                           .to(representation_.scalar_type()));
    }
    const auto gradients = torch::autograd::grad(outputs, wanted, deltas, /*retain_graph=*/false,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const ParameterSlot& slot = *slots[i];
      const at::Tensor used = gradients[i].defined() ? gradients[i] : at::zeros(slot.shape);
      target.add(slot.offset, used.contiguous().data_ptr<float>(), slot.size);
    }
  }
  output_.reset();
  representation_.reset();
}

at::Tensor dropout(const at::Tensor& x, double share, RandomStream* noise) {
  if (noise == nullptr || share == 0) return x;
  const at::Tensor mask = at::empty(x.sizes(), at::kFloat);
  draw_mask(share, *noise, {mask.data_ptr<float>(), static_cast<std::size_t>(mask.numel())});
  return x * mask;
}

}  // namespace hanse
