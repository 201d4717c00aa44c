#include <algorithm>
#include <cmath>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/client/local_update.hpp"

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
    if (proximal()) {
      const std::span<const float> origin = task.anchor.empty() ? task.row : task.anchor;
      std::copy(origin.begin(), origin.end(), origin_.begin());
    }
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
  // g <- h min(1, clip/|h|) + wd w + mu (w - theta);  v <- momentum v + g;  w <- w - lr v
  double gradient_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient_);
    const double slope = propfair_slope(options_.propfair, loss);
    const auto scale = static_cast<float>(slope * clip_scale(slope));
    const auto rate = static_cast<float>(lr);
    const auto decay = static_cast<float>(options_.weight_decay);
    const auto momentum = static_cast<float>(options_.momentum);
    const auto mu = static_cast<float>(options_.mu);
    for (std::size_t i = 0; i < row.size(); ++i) {
      float direction = scale * gradient_[i] + decay * row[i];
      if (!origin_.empty()) direction += mu * (row[i] - origin_[i]);
      if (!velocity_.empty()) direction = velocity_[i] = momentum * velocity_[i] + direction;
      row[i] -= rate * direction;
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
