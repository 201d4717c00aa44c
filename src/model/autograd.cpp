#include "autograd.hpp"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "image_input.hpp"
#include "loss.hpp"

namespace hanse {

AutogradModel::AutogradModel(const std::vector<int64_t>& sample_shape, LossKind loss)
    : sample_shape_(sample_shape), loss_(loss) {}

void AutogradModel::add_head(const std::vector<int64_t>& widths, double input_dropout,
                             double hidden_dropout) {
  n_leaves_ = layout_.slots().size();
  DenseOptions options;
  options.rectify_input = true;
  options.input_dropout = input_dropout;
  options.hidden_dropout = hidden_dropout;
  head_ = std::make_unique<DenseStack>(layout_, widths, options);
}

double AutogradModel::descend(const float* row, const Batch& batch, RandomStream& noise,
                              const GradientTarget& target) {
  const std::vector<at::Tensor>& leaves = leaves_.of(layout_, n_leaves_, row);
  const at::Tensor output = features(leaves, image_input(batch, sample_shape_));
  const at::Tensor flat = output.detach().contiguous();  // rows in the order of the head's weights
  float* logits = head_->forward(row, flat.data_ptr<float>(), batch.rows, &noise);
  const double loss = loss_and_delta(loss_, batch, head_->outputs(), logits);
  float* delta = head_->backward(row, target);
  const auto gradients =
      torch::autograd::grad({output}, leaves, {at::from_blob(delta, output.sizes(), at::kFloat)});
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ParameterSlot& slot = layout_.slots()[i];
    target.add(slot.offset, gradients[i].contiguous().data_ptr<float>(), slot.size);
  }
  return loss / static_cast<double>(batch.rows);
}

double AutogradModel::loss_and_gradient(std::span<const float> row, const Batch& batch,
                                        RandomStream& noise, std::span<float> gradient) {
  return descend(row.data(), batch, noise, GradientTarget::store(gradient));
}

double AutogradModel::sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise,
                               double lr, double weight_decay) {
  return descend(row.data(), batch, noise, GradientTarget::step(row, lr, weight_decay));
}

double AutogradModel::record_gradient(std::span<const float> row, const Batch& batch,
                                      RandomStream& noise, GradientRecord& record) {
  return descend(row.data(), batch, noise, GradientTarget::keep_in(record));
}

int64_t AutogradModel::record_product_cost(int64_t rows) const {
  int64_t cost = head_->record_product_cost(rows);
  for (std::size_t i = 0; i < n_leaves_; ++i) cost += layout_.slots()[i].size;
  return cost;
}

EvaluationSums AutogradModel::evaluate(std::span<const float> row, const Batch& batch,
                                       float* scores) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor>& leaves = leaves_.of(layout_, n_leaves_, row.data());
  const at::Tensor flat = features(leaves, image_input(batch, sample_shape_)).contiguous();
  float* logits = head_->forward(row.data(), flat.data_ptr<float>(), batch.rows, nullptr);
  return evaluate_logits(loss_, batch, head_->outputs(), logits, scores);
}

}  // namespace hanse
