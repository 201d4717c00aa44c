#include "network_model.hpp"

#include <algorithm>

namespace hanse {

double NetworkModel::descend(const float* row, const Batch& batch, RandomStream& noise,
                             const GradientTarget& target) {
  float* logits = forward(row, batch, &noise);
  const double loss = loss_->loss_and_delta(batch, logits);
  backward(row, batch, target);
  return loss / static_cast<double>(batch.rows);
}

double NetworkModel::loss_and_gradient(std::span<const float> row, const Batch& batch,
                                       RandomStream& noise, std::span<float> gradient) {
  const double loss = descend(row.data(), batch, noise, GradientTarget::store(gradient));
  std::fill(gradient.begin() + layout_.n_trainable(), gradient.end(), 0.0F);
  return loss;
}

double NetworkModel::sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise,
                              double lr, double weight_decay) {
  const double loss =
      descend(row.data(), batch, noise, GradientTarget::step(row, lr, weight_decay));
  move_buffers(row);
  return loss;
}

double NetworkModel::record_gradient(std::span<const float> row, const Batch& batch,
                                     RandomStream& noise, GradientRecord& record) {
  if (record_product_cost(batch.rows) == 0) {
    return Model::record_gradient(row, batch, noise, record);  // throws
  }
  return descend(row.data(), batch, noise, GradientTarget::keep_in(record));
}

EvaluationSums NetworkModel::evaluate(std::span<const float> row, const Batch& batch,
                                      float* scores) {
  return loss_->evaluate(batch, forward(row.data(), batch, nullptr), scores);
}

}  // namespace hanse
