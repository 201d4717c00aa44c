// What all networks of this module share: a forward pass, a loss and a backward pass.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/error.hpp"
#include "loss.hpp"
#include "objective.hpp"

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

  double step_by(std::span<float> row, const Batch& batch, RandomStream& noise,
                 RowStep& step) final {
    if (objective_ && !objective_->row_gradient().empty()) {  // whose parts come twice
      return Model::step_by(row, batch, noise, step);
    }
    const double loss = descend(row.data(), batch, noise, {.step = &step});
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

  double clipped_gradient(std::span<const float> row, const Batch& batch, const SampleSizes& sizes,
                          RandomStream& noise, double clip, std::span<double> sum) final {
    if (objective_ || !parts_samples() || batch.rows == 0) {
      return Model::clipped_gradient(row, batch, sizes, noise, clip, sum);
    }
    samples_.start(batch.rows, clip, sum);
    const double loss = descend(row.data(), batch, noise, {.samples = &samples_});
    samples_.finish();
    return loss;
  }

  EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                          SampleResults results) final {
    return loss_->evaluate(batch, forward(row.data(), batch, nullptr), results);
  }

  void receive(const Received& received) final;
  void represent(std::span<const float> row, const Batch& batch, std::span<float> to) final;

  void minimise(std::unique_ptr<Objective> objective) { objective_ = std::move(objective); }
  int64_t outputs() const { return loss_->outputs(); }
  int64_t positions() const { return loss_->positions(); }
  const Loss& loss() const { return *loss_; }
  // Does backward() know the target's `samples`?
  virtual bool parts_samples() const { return false; }

 protected:
  explicit NetworkModel(LossPtr loss) : loss_(std::move(loss)) {}

  // Notes a layer of so many multiply-adds a sample. A gradient takes them three times, forwards
  // and for either factor, but twice where the layer reads the samples, whose gradient nobody
  // needs.
  void add_layer_work(double multiply_adds, bool reads_samples = false) {
    gradient_flops_ += (reads_samples ? 4 : 6) * multiply_adds;
  }

  // Returns the logits [rows, outputs] of a batch, [rows, positions, outputs] of sequences; they
  // live until the next call and may be overwritten. Dropout is drawn from `noise`; null:
  // evaluation, and no backward() follows.
  virtual float* forward(const float* row, const Batch& batch, RandomStream* noise) = 0;

  // Hands the gradient to `target`, which may be the row of forward() itself. The deltas of the
  // logits stand where the last forward() left the logits, and representation_delta() is one more
  // of what the last layer reads.
  virtual void backward(const float* row, const Batch& batch, const GradientTarget& target) = 0;

  // [rows, positions, representation_width()] what the last forward() gave to the last layer, until
  // the next call.
  virtual const float* representation() { return nullptr; }
  // [rows, positions, representation_width()], or null.
  const float* representation_delta() const {
    return representation_delta_.empty() ? nullptr : representation_delta_.data();
  }
  // delta [rows, positions, representation_width()] += it, if there is one.
  void add_representation_delta(float* delta) const {
    for (std::size_t i = 0; i < representation_delta_.size(); ++i) {
      delta[i] += representation_delta_[i];
    }
  }

 private:
  double descend(const float* row, const Batch& batch, RandomStream& noise,
                 const GradientTarget& target) {
    flops_ += gradient_flops_ * static_cast<double>(batch.rows);
    if (objective_) return descend_objective(row, batch, noise, target);
    float* z = forward(row, batch, &noise);
    if (batch.sample_losses != nullptr) note_sample_losses(batch, z);
    const double loss = of_mixture(batch, z, [&](const Batch& one, float* logits) {
      return loss_->loss_and_delta(one, logits);
    });
    backward(row, batch, target);
    return loss / static_cast<double>(batch.rows);
  }

  void note_sample_losses(const Batch& batch, const float* logits) {
    loss_->find_sample_losses(batch, logits, batch.sample_losses);
    if (batch.mixed == nullptr) return;
    Batch other = batch;
    other.labels = batch.mixed->labels;
    other.targets = batch.mixed->targets;
    std::vector<double> others(static_cast<std::size_t>(batch.rows));
    loss_->find_sample_losses(other, logits, others.data());
    const double share = batch.mixed->share;
    for (std::size_t r = 0; r < others.size(); ++r) {
      batch.sample_losses[r] = share * batch.sample_losses[r] + (1 - share) * others[r];
    }
  }

  // Takes loss and deltas by both labels of a mixture in their shares, else by the batch's own.
  template <class LossAndDelta>
  double of_mixture(const Batch& batch, float* logits, LossAndDelta loss_and_delta) {
    if (batch.mixed == nullptr) return loss_and_delta(batch, logits);
    const int64_t size = batch.rows * loss_->logits();
    other_logits_.assign(logits, logits + size);
    Batch other = batch;
    other.labels = batch.mixed->labels;
    other.targets = batch.mixed->targets;
    const double loss = loss_and_delta(batch, logits);
    const double other_loss = loss_and_delta(other, other_logits_.data());
    const double share = batch.mixed->share;
    const auto own = static_cast<float>(share), rest = 1 - own;
    for (int64_t i = 0; i < size; ++i) {
      logits[i] = own * logits[i] + rest * other_logits_[static_cast<std::size_t>(i)];
    }
    return share * loss + (1 - share) * other_loss;
  }

  double descend_objective(const float* row, const Batch& batch, RandomStream& noise,
                           const GradientTarget& target);
  double ask_objective(const ObjectiveRows& rows, const Batch& batch, RandomStream& noise,
                       float* logits);

  LossPtr loss_;
  std::unique_ptr<Objective> objective_;  // null: the loss
  std::vector<float> received_, last_;    // [P] where the objective asks for them
  std::vector<float> class_means_;        // Received::class_means likewise
  std::vector<float> received_logits_;    // [rows, outputs] likewise
  std::vector<float> received_representation_, last_representation_;  // of the batch, likewise
  std::vector<float> representation_delta_;  // of the objective; empty: none
  std::vector<float> other_logits_;          // [rows, outputs] of a mixture
  SampleGradients samples_;
};

}  // namespace hanse
