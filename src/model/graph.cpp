#include "graph.hpp"

#include <algorithm>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "dropout.hpp"
#include "gradient_target.hpp"
#include "loss.hpp"

namespace hanse {

const std::vector<at::Tensor>& GraphModel::leaves(const float* row) {
  return leaves_.of(layout_, layout_.slots().size(), row);
}

double GraphModel::descend(const float* row, const Batch& batch, RandomStream& noise,
                           const GradientTarget& target) {
  const std::vector<at::Tensor>& bound = leaves(row);
  const at::Tensor output = logits(bound, batch, &noise);
  const at::Tensor delta = output.detach().clone(at::MemoryFormat::Contiguous);
  const double loss = loss_and_delta(loss_, batch, outputs_, delta.data_ptr<float>());
  const auto gradients =
      torch::autograd::grad({output}, bound, {delta.view(output.sizes())}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const ParameterSlot& slot = layout_.slots()[i];
    const at::Tensor used = gradients[i].defined() ? gradients[i] : at::zeros(slot.shape);
    target.add(slot.offset, used.contiguous().data_ptr<float>(), slot.size);
  }
  return loss / static_cast<double>(batch.rows);
}

double GraphModel::loss_and_gradient(std::span<const float> row, const Batch& batch,
                                     RandomStream& noise, std::span<float> gradient) {
  const double loss = descend(row.data(), batch, noise, GradientTarget::store(gradient));
  std::fill(gradient.begin() + layout_.n_trainable(), gradient.end(), 0.0F);
  return loss;
}

double GraphModel::sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise,
                            double lr, double weight_decay) {
  const double loss =
      descend(row.data(), batch, noise, GradientTarget::step(row, lr, weight_decay));
  move_buffers(row);
  return loss;
}

EvaluationSums GraphModel::evaluate(std::span<const float> row, const Batch& batch, float* scores) {
  const at::NoGradGuard no_grad;
  const at::Tensor output =
      logits(leaves(row.data()), batch, nullptr).clone(at::MemoryFormat::Contiguous);
  return evaluate_logits(loss_, batch, outputs_, output.data_ptr<float>(), scores);
}

at::Tensor dropout(const at::Tensor& x, double share, RandomStream* noise) {
  if (noise == nullptr || share == 0) return x;
  const at::Tensor mask = at::empty(x.sizes(), at::kFloat);
  draw_mask(share, *noise, {mask.data_ptr<float>(), static_cast<std::size_t>(mask.numel())});
  return x * mask;
}

}  // namespace hanse
