#include "network_model.hpp"

#include "hanse/base/index.hpp"

namespace hanse {

void NetworkModel::receive(const Received& received) {
  if (!objective_) return;
  const ObjectiveNeeds needs = objective_->needs();
  const auto keep = [](bool needed, std::span<const float> values, std::vector<float>& copy) {
    if (needed) copy.assign(values.begin(), values.end());
  };
  keep(needs.received_row || needs.received_logits || needs.received_representation, received.row,
       received_);
  keep(needs.last_representation, received.last, last_);
  keep(needs.class_means, received.class_means, class_means_);
}

void NetworkModel::represent(std::span<const float> row, const Batch& batch, std::span<float> to) {
  forward(row.data(), batch, nullptr);
  std::copy_n(representation(), to.size(), to.begin());
}

// Other rows' passes come first: backward() needs what the row's own forward() leaves.
double NetworkModel::descend_objective(const float* row, const Batch& batch, RandomStream& noise,
                                       const GradientTarget& target) {
  const ObjectiveNeeds needs = objective_->needs();
  const bool compares = needs.received_row || needs.received_logits;
  if ((compares || needs.received_representation) && received_.empty()) {
    throw Error("the objective has no received row");
  }
  const auto see = [&](bool represents, std::vector<float>& representation,
                       const std::vector<float>& other) {
    const float* logits = forward(other.data(), batch, nullptr);
    if (represents) {
      const float* seen = this->representation();
      representation.assign(seen, seen + batch.rows * positions() * representation_width());
    }
    return logits;
  };
  if (needs.received_logits || needs.received_representation) {
    const float* logits = see(needs.received_representation, received_representation_, received_);
    if (needs.received_logits) {
      received_logits_.assign(logits, logits + batch.rows * loss_->logits());
    }
  }
  const bool has_last = needs.last_representation && !last_.empty();
  if (has_last) see(true, last_representation_, last_);
  float* logits = forward(row, batch, &noise);
  const auto trainable = to_index(layout_.n_trainable());
  const ObjectiveRows rows{
      .row = {row, trainable},
      .received = std::span<const float>(received_).first(std::min(received_.size(), trainable)),
      .received_logits = received_logits_.data(),
      .representation = needs.representation ? representation() : nullptr,
      .received_representation = received_representation_.data(),
      .last_representation = has_last ? last_representation_.data() : nullptr,
      .class_means = class_means_};
  const double loss = ask_objective(rows, batch, noise, logits);
  backward(row, batch, target);
  representation_delta_.clear();
  const auto more = objective_->row_gradient();
  if (!more.empty()) {
    const RowUpdate also{.row = target.update.row, .keep = 1, .scale = target.update.scale};
    also.add(0, more.data(), std::ssize(more));
  }
  return loss;
}

// The loss, the deltas of the logits and representation_delta_, of a mixture in their shares.
double NetworkModel::ask_objective(const ObjectiveRows& rows, const Batch& batch,
                                   RandomStream& noise, float* logits) {
  float share = batch.mixed == nullptr ? 1.0F : static_cast<float>(batch.mixed->share);
  representation_delta_.clear();
  return of_mixture(batch, logits, [&](const Batch& one, float* deltas) {
    const double loss = objective_->loss_and_delta({rows, one}, noise, deltas);
    const std::span<const float> found = objective_->representation_gradient();
    representation_delta_.resize(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) representation_delta_[i] += share * found[i];
    share = 1 - share;  // of the other labels, which come second
    return loss;
  });
}

}  // namespace hanse
