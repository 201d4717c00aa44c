// What all networks of this module share: a forward pass, a loss and a backward pass.
#pragma once

#include <algorithm>
#include <utility>

#include "gradient_target.hpp"
#include "loss.hpp"

namespace hanse {

class NetworkModel : public Model {
 public:
  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) final {
    const double loss = descend(row.data(), batch, noise, {{.row = gradient.data()}});
    std::fill(gradient.begin() + layout_.n_trainable(), gradient.end(), 0.0F);
    return loss;
  }

  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) final {
    const RowUpdate step{.row = row.data(),
                         .keep = static_cast<float>(1.0 - lr * weight_decay),
                         .scale = static_cast<float>(-lr)};
    const double loss = descend(row.data(), batch, noise, {step});
    move_buffers(row);
    return loss;
  }

  double record_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                         GradientRecord& record) final {
    if (record_product_cost(batch.rows) == 0) {
      return Model::record_gradient(row, batch, noise, record);  // throws
    }
    record.clear();
    return descend(row.data(), batch, noise, {.record = &record});
  }

  EvaluationSums evaluate(std::span<const float> row, const Batch& batch, float* scores) final {
    return loss_->evaluate(batch, forward(row.data(), batch, nullptr), scores);
  }

 protected:
  explicit NetworkModel(LossPtr loss) : loss_(std::move(loss)) {}

  const Loss& loss() const { return *loss_; }

  // Logits [rows, outputs] of a batch; they live until the next call and may be overwritten.
  // Dropout is drawn from `noise`; null: evaluation, behind which no backward() follows.
  virtual float* forward(const float* row, const Batch& batch, RandomStream* noise) = 0;

  // Hands the gradient to `target`, which may be the row of forward() itself. The deltas of the
  // logits stand where the last forward() left the logits.
  virtual void backward(const float* row, const Batch& batch, const GradientTarget& target) = 0;

 private:
  double descend(const float* row, const Batch& batch, RandomStream& noise,
                 const GradientTarget& target) {
    const double loss = loss_->loss_and_delta(batch, forward(row, batch, &noise));
    backward(row, batch, target);
    return loss / static_cast<double>(batch.rows);
  }

  LossPtr loss_;
};

}  // namespace hanse
