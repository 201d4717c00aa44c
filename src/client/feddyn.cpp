#include "hanse/client/feddyn.hpp"

#include <algorithm>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/client/schedule.hpp"
#include "hanse/client/side_by_side.hpp"

namespace hanse {

namespace {

class FedDyn final : public LocalUpdate, private SideBySide {
 public:
  FedDyn(const ClientOptions& options, const Federation& federation, Model& model)
      : LocalUpdate({{"regulariser", model.layout().n_trainable()}}),
        options_(options),
        model_(model),
        batches_(options, federation),
        gradient_(static_cast<std::size_t>(model.n_params())),
        theta_(static_cast<std::size_t>(model.layout().n_trainable())) {}

  int64_t control_width() const override { return 1; }
  bool control_returns() const override { return false; }

  ClientOutcome train(const ClientTask& task) override {
    std::copy_n(task.row.begin(), theta_.size(), theta_.begin());
    model_.receive(task.row);
    const double lr = learning_rate(options_, task.round);
    const ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      return pulled_step(task.row, task.state, batch, noise, static_cast<float>(lr));
    });
    after(0, task, theta_, theta_);
    return outcome;
  }

  SideBySide* side_by_side() override { return this; }

 private:
  std::vector<CohortPass> passes() const override {
    return {{.mu = options_.second_order.alpha, .pulls = true, .looks_back = true}};
  }

  void before(std::size_t, const ClientTask& task, std::span<float> pull) override {
    for (std::size_t i = 0; i < theta_.size(); ++i) pull[i] = -task.state[i];
  }

  bool after(std::size_t, const ClientTask& task, std::span<const float> start,
             std::span<const float>) override {
    for (std::size_t i = 0; i < theta_.size(); ++i) {
      task.state[i] -= alpha() * (task.row[i] - start[i]);
    }
    if (!task.control_change.empty()) task.control_change.front() = 1;
    return false;
  }

  float alpha() const { return static_cast<float>(options_.second_order.alpha); }

  double pulled_step(std::span<float> row, std::span<const float> h, const Batch& batch,
                     RandomStream& noise, float rate) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient_);
    const auto slope = static_cast<float>(propfair_slope(options_.propfair, loss));
    const auto decay = static_cast<float>(options_.weight_decay);
    for (std::size_t i = 0; i < theta_.size(); ++i) {
      const float g = slope * gradient_[i] + decay * row[i];
      row[i] -= rate * (g - h[i] + alpha() * (row[i] - theta_[i]));
    }
    model_.move_buffers(row);
    return loss;
  }

  ClientOptions options_;
  Model& model_;
  BatchStream batches_;
  std::vector<float> gradient_;  // [P]
  std::vector<float> theta_;     // [trainable] the received model
};

}  // namespace

std::unique_ptr<LocalUpdate> make_feddyn(const ClientOptions& options, const Federation& federation,
                                         Model& model) {
  return std::make_unique<FedDyn>(options, federation, model);
}

}  // namespace hanse
