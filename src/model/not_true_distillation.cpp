// Cross-entropy with not-true distillation from the received model (FedNTD, Lee et al. 2022).
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/model/distillation.hpp"
#include "hanse/model/loss_math.hpp"
#include "loss.hpp"
#include "network_model.hpp"

namespace hanse {

namespace {

// softmax(z / tau) over the classes other than y.
struct NotTrue {
  const float* z;
  int64_t classes, y;
  float tau;
  float largest = 0;
  double sum = 0, log_sum = 0;  // of the exponentials of shifted()

  NotTrue(const float* logits, int64_t n, int64_t label, float temperature)
      : z(logits), classes(n), y(label), tau(temperature) {
    largest = z[y == 0 ? 1 : 0];
    for (int64_t c = 0; c < classes; ++c) {
      if (c != y) largest = std::max(largest, z[c]);
    }
    for (int64_t c = 0; c < classes; ++c) {
      if (c != y) sum += static_cast<double>(exp_nonpositive(shifted(c)));
    }
    log_sum = log_from_one(sum);
  }

  float shifted(int64_t c) const { return (z[c] - largest) / tau; }
  double probability(int64_t c) const {
    return static_cast<double>(exp_nonpositive(shifted(c))) / sum;
  }
  double log_probability(int64_t c) const { return static_cast<double>(shifted(c)) - log_sum; }
};

class NotTrueDistillation final : public Objective {
 public:
  NotTrueDistillation(const NetworkModel& network, double beta, double tau)
      : beta_(beta),
        tau_(tau),
        classes_(network.outputs()),
        positions_(network.positions()),
        plain_(network.loss()) {}

  ObjectiveNeeds needs() const override { return {.received_logits = true}; }

  double loss_and_delta(const ObjectiveStep& step, RandomStream&, float* logits) override {
    const Batch& batch = step.batch;
    own_.assign(logits, logits + batch.rows * positions_ * classes_);
    double loss = plain_.loss_and_delta(batch, logits);
    for (int64_t r = 0; r < batch.rows; ++r) {
      const int32_t* labels = batch.labels + r * positions_;
      const int64_t labelled = positions_ - std::count(labels, labels + positions_, -1);
      for (int64_t p = 0; p < positions_; ++p) {
        if (labels[p] < 0) continue;  // a position without a label
        const int64_t at = (r * positions_ + p) * classes_;
        loss += distill({own_.data() + at, classes_, labels[p], static_cast<float>(tau_)},
                        {step.received_logits + at, classes_, labels[p], static_cast<float>(tau_)},
                        1 / static_cast<double>(labelled), batch.rows, logits + at);
      }
    }
    return loss / static_cast<double>(batch.rows);
  }

 private:
  // beta tau^2 KL(p || q) of the received model's p and the model's q; its derivative by z_c is
  // beta tau (q_c - p_c).
  double distill(const NotTrue& q, const NotTrue& p, double share, int64_t rows,
                 float* delta) const {
    const double scale = beta_ * tau_ * share / static_cast<double>(rows);
    double divergence = 0;
    for (int64_t c = 0; c < classes_; ++c) {
      if (c == q.y) continue;
      const double likely = p.probability(c);
      divergence += likely * (p.log_probability(c) - q.log_probability(c));
      delta[c] += static_cast<float>(scale * (q.probability(c) - likely));
    }
    return beta_ * tau_ * tau_ * share * divergence;
  }

  double beta_, tau_;
  int64_t classes_, positions_;
  const Loss& plain_;
  std::vector<float> own_;  // [rows, positions, classes] the model's logits
};

}  // namespace

void distill_not_true(Model& model, double beta, double temperature) {
  auto& network = dynamic_cast<NetworkModel&>(model);
  if (network.loss().rule() != LossRule::kCrossEntropy) {
    throw InvalidArgument(
        fmt::format("not-true distillation is of the cross-entropy's classes, not of {}",
                    network.loss().name()),
        "model.loss", "cross-entropy takes two classes and more; or another client.update");
  }
  if (network.outputs() < 3) {
    throw InvalidArgument("of two classes one alone is not true: there is nothing to distill",
                          "client.update", "sgd, or data of three classes or more");
  }
  network.minimise(std::make_unique<NotTrueDistillation>(network, beta, temperature));
}

}  // namespace hanse
