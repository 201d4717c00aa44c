// What all networks of this module share: a forward pass, a loss and a backward pass.
#pragma once

#include <utility>

#include "gradient_target.hpp"
#include "loss.hpp"

namespace hanse {

class NetworkModel : public Model {
 public:
  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) final;
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) final;
  double record_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                         GradientRecord& record) final;
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch, float* scores) final;

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
                 const GradientTarget& target);

  LossPtr loss_;
};

}  // namespace hanse
