#include <algorithm>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/client/fednova.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/schedule.hpp"
#include "hanse/client/side_by_side.hpp"
#include "hanse/model/sgd_rule.hpp"

namespace hanse {

namespace {

class Scaffold final : public LocalUpdate, private SideBySide {
 public:
  Scaffold(const ClientOptions& options, const Federation& federation, Model& model)
      : LocalUpdate({{"control", model.layout().n_trainable()}}),
        options_(options),
        federation_(federation),
        model_(model),
        batches_(options, federation),
        gradient_(static_cast<std::size_t>(model.n_params())),
        origin_(static_cast<std::size_t>(model.layout().n_trainable())) {
    if (options.momentum > 0) velocity_.resize(origin_.size());
  }

  int64_t control_width() const override { return state_width(); }

  ClientOutcome train(const ClientTask& task) override {
    std::copy_n(task.row.begin(), origin_.size(), origin_.begin());
    std::fill(velocity_.begin(), velocity_.end(), 0.0F);
    model_.receive(task.row);
    // c - c_i stands in control_change until the steps are done: a row less to keep.
    const std::span<float> drift = task.control_change;
    before(0, task, drift);
    const double lr = learning_rate(options_, task.round);
    const ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      return corrected_step(task.row, drift, batch, noise, lr);
    });
    after(0, task, origin_, origin_);
    return outcome;
  }

  SideBySide* side_by_side() override { return this; }

 private:
  std::vector<CohortPass> passes() const override { return {{.pulls = true, .looks_back = true}}; }

  void before(std::size_t, const ClientTask& task, std::span<float> pull) override {
    for (std::size_t i = 0; i < origin_.size(); ++i) pull[i] = task.control[i] - task.state[i];
  }

  // g = s(F) grad F + wd y, the objective's gradient
  //   v <- momentum v + g - c_i + c,  y <- y - lr v
  double corrected_step(std::span<float> row, std::span<const float> drift, const Batch& batch,
                        RandomStream& noise, double lr) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient_);
    const auto slope = static_cast<float>(propfair_slope(options_.propfair, loss));
    const auto rate = static_cast<float>(lr);
    const auto decay = static_cast<float>(options_.weight_decay);
    const SgdRule rule{.momentum = static_cast<float>(options_.momentum),
                       .nesterov = options_.optimizer.nesterov};
    for (std::size_t i = 0; i < drift.size(); ++i) {
      float direction = slope * gradient_[i] + decay * row[i] + drift[i];
      if (!velocity_.empty()) direction = with_momentum(rule, direction, velocity_[i]);
      row[i] -= rate * direction;
    }
    model_.move_buffers(row);
    return loss;
  }

  // c_i+ - c_i = (x - y) / (K lr) - c,  with momentum K = tau_i, the sum of the gradients' weights
  bool after(std::size_t, const ClientTask& task, std::span<const float> start,
             std::span<const float>) override {
    const int64_t samples = federation_.train(task.client).size();
    const double path =
        effective_steps(options_, task.round, samples) * learning_rate(options_, task.round);
    const auto inverse_path = static_cast<float>(1 / path);
    for (std::size_t i = 0; i < origin_.size(); ++i) {
      const float change = (start[i] - task.row[i]) * inverse_path - task.control[i];
      task.control_change[i] = change;
      task.state[i] += change;
    }
    return false;
  }

  ClientOptions options_;
  const Federation& federation_;
  Model& model_;
  BatchStream batches_;
  std::vector<float> gradient_;  // [P]
  std::vector<float> origin_;    // [trainable] the received model x
  std::vector<float> velocity_;  // [trainable] v, with momentum
};

}  // namespace

std::unique_ptr<LocalUpdate> make_scaffold(const ClientOptions& options,
                                           const Federation& federation, Model& model) {
  return std::make_unique<Scaffold>(options, federation, model);
}

}  // namespace hanse
