#include <algorithm>
#include <cmath>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/model/sgd_rule.hpp"

namespace hanse {

namespace {

class Sgd final : public LocalUpdate {
 public:
  Sgd(const ClientOptions& options, const Federation& federation, Model& model)
      : options_(options), model_(model), batches_(options, federation) {
    const auto n = static_cast<std::size_t>(model.n_params());
    if (options.momentum > 0) velocity_.resize(n);
    if (proximal()) origin_.resize(n);
    if (needs_gradient()) gradient_.resize(n);
  }

  ClientOutcome train(const ClientTask& task) override {
    std::fill(velocity_.begin(), velocity_.end(), 0.0F);
    const std::span<const float> origin = task.anchor.empty() ? task.row : task.anchor;
    if (proximal()) std::copy(origin.begin(), origin.end(), origin_.begin());
    model_.receive(origin);
    const double lr = learning_rate(options_, task.round);
    return batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      return needs_gradient() ? gradient_step(task.row, batch, noise, lr)
                              : model_.sgd_step(task.row, batch, noise, lr, options_.weight_decay);
    });
  }

  bool is_sgd() const override { return options_.propfair.base == 0 && !options_.pooled; }

 private:
  bool proximal() const { return options_.kind == "prox"; }
  bool needs_gradient() const {
    return options_.momentum > 0 || options_.clip > 0 || options_.propfair.base > 0 || proximal();
  }

  // h = s(F) g, the objective's gradient;
  // g <- h min(1, clip/|h|), then SgdRule;  w <- w - lr v
  double gradient_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient_);
    const double slope = propfair_slope(options_.propfair, loss);
    const auto scale = static_cast<float>(slope * clip_scale(slope));
    const auto rate = static_cast<float>(lr);
    const SgdRule rule(options_.weight_decay, options_.momentum, options_.mu);
    const float* origin = origin_.empty() ? nullptr : origin_.data();
    float* velocity = velocity_.empty() ? nullptr : velocity_.data();
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] -= rate * sgd_direction(rule, scale * gradient_[i], row[i],
                                     origin == nullptr ? nullptr : origin + i,
                                     velocity == nullptr ? nullptr : velocity + i);
    }
    model_.move_buffers(row);
    return loss;
  }

  double clip_scale(double slope) const {
    if (options_.clip <= 0) return 1;
    double squared = 0;
    for (const float g : gradient_) squared += static_cast<double>(g) * static_cast<double>(g);
    const double norm = slope * std::sqrt(squared);
    return norm > options_.clip ? options_.clip / norm : 1;
  }

  ClientOptions options_;
  Model& model_;
  BatchStream batches_;
  std::vector<float> gradient_;  // [P] when something needs it
  std::vector<float> velocity_;  // [P] when there is momentum
  std::vector<float> origin_;    // [P] what the proximal term pulls to
};

}  // namespace

std::unique_ptr<LocalUpdate> make_sgd(const ClientOptions& options, const Federation& federation,
                                      Model& model) {
  return std::make_unique<Sgd>(options, federation, model);
}

}  // namespace hanse
