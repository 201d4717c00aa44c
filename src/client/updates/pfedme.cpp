#include <algorithm>

#include "hanse/client/updates.hpp"
#include "own_steps.hpp"

namespace hanse {

namespace {

class PFedMe final : public OwnSteps {
 public:
  PFedMe(const ClientOptions& options, const Federation& federation, Model& model)
      : OwnSteps(options, federation, model, {{kModel, model.n_params()}, {kKnown, 1}},
                 RoundSteps(options)),
        inner_(inner_steps(options)),
        count_(options.inner),
        mu_(static_cast<float>(options.mu)) {}

  bool keeps_own_model() const override { return true; }

  void own_model(const ClientTask& task) override {
    if (block(task.state, kKnown).front() == 0) return;
    std::ranges::copy(block(task.state, kModel), task.row.begin());
  }

  ClientOutcome train(const ClientTask& task) override {
    model_.receive({task.row});
    std::ranges::copy(task.row, block(task.state, kModel).begin());
    block(task.state, kKnown).front() = 1;
    const double lr = steps().schedule().rate(task.round), inner_lr = inner_.rate(task.round);
    return batches_.run(task, [&](Batch batch, RandomStream& noise) {
      const double loss = inner_step(task, batch, noise, inner_lr);
      batch.sample_losses = nullptr;
      for (int64_t k = 1; k < count_; ++k) inner_step(task, batch, noise, inner_lr);
      outer_step(task, lr);
      return loss;
    });
  }

 private:
  // x, and 1 once it is there.
  static constexpr const char* kModel = "model";
  static constexpr const char* kKnown = "known";

  // x <- x - inner_lr (g + mu (x - w))
  double inner_step(const ClientTask& task, const Batch& batch, RandomStream& noise, double rate) {
    const std::span<float> x = block(task.state, kModel);
    const double loss = model_.loss_and_gradient(x, batch, noise, gradient_);
    for (std::size_t i = 0; i < trained_; ++i) gradient_[i] += mu_ * (x[i] - task.row[i]);
    step(x, x, rate);
    return loss;
  }

  // w <- w - lr mu (w - x)
  void outer_step(const ClientTask& task, double lr) const {
    const std::span<const float> x = block(task.state, kModel);
    const float rate = static_cast<float>(lr) * mu_;
    for (std::size_t i = 0; i < trained_; ++i) task.row[i] -= rate * (task.row[i] - x[i]);
    std::ranges::copy(x.subspan(trained_), task.row.subspan(trained_).begin());
  }

  Schedule inner_;
  int64_t count_;  // K
  float mu_;
};

}  // namespace

std::unique_ptr<LocalUpdate> make_pfedme(const ClientOptions& options, const Federation& federation,
                                         Model& model) {
  return std::make_unique<PFedMe>(options, federation, model);
}

}  // namespace hanse
