#include "autograd.hpp"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "loss.hpp"

namespace hanse {

AutogradModel::AutogradModel(const std::vector<int64_t>& sample_shape, LossKind loss)
    : sample_shape_(sample_shape), loss_(loss) {}

void AutogradModel::add_head(const std::vector<int64_t>& widths, double input_dropout,
                             double hidden_dropout) {
  leaves_.resize(layout_.slots().size());
  DenseOptions options;
  options.rectify_input = true;
  options.input_dropout = input_dropout;
  options.hidden_dropout = hidden_dropout;
  head_ = std::make_unique<DenseStack>(layout_, widths, options);
}

// Leaves alias the row, so a write to the row is seen by the next forward pass. The writes go
// through plain pointers and between two graphs: autograd's version counters never see them.
void AutogradModel::bind(const float* row) {
  if (row == bound_row_) return;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const ParameterSlot& slot = layout_.slots()[i];
    float* data = const_cast<float*>(row) + slot.offset;  // from_blob knows no const
    leaves_[i] = at::from_blob(data, slot.shape, at::kFloat).requires_grad_();
  }
  bound_row_ = row;
}

// Channels last: pooling and convolution are 1.5 to 10 times faster on it. With one channel it is
// the same memory under other strides, but LibTorch chooses by the strides.
at::Tensor AutogradModel::input(const Batch& batch) const {
  const int64_t c = sample_shape_[0], h = sample_shape_[1], w = sample_shape_[2];
  float* data = const_cast<float*>(batch.features);
  if (c == 1) {
    return at::from_blob(data, {batch.rows, c, h, w}, {h * w, 1, w, 1}, at::kFloat);
  }
  return at::from_blob(data, {batch.rows, c, h, w}, at::kFloat)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

double AutogradModel::descend(const float* row, const Batch& batch, RandomStream& noise,
                              const GradientTarget& target) {
  bind(row);
  const at::Tensor output = features(leaves_, input(batch));
  const at::Tensor flat = output.detach().contiguous();  // rows in the order of the head's weights
  float* logits = head_->forward(row, flat.data_ptr<float>(), batch.rows, &noise);
  const double loss = loss_and_delta(loss_, batch, head_->outputs(), logits);
  float* delta = head_->backward(row, target);
  const auto gradients =
      torch::autograd::grad({output}, leaves_, {at::from_blob(delta, output.sizes(), at::kFloat)});
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
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

EvaluationSums AutogradModel::evaluate(std::span<const float> row, const Batch& batch,
                                       float* scores) {
  const at::NoGradGuard no_grad;
  bind(row.data());
  const at::Tensor flat = features(leaves_, input(batch)).contiguous();
  float* logits = head_->forward(row.data(), flat.data_ptr<float>(), batch.rows, nullptr);
  return evaluate_logits(loss_, batch, head_->outputs(), logits, scores);
}

}  // namespace hanse
