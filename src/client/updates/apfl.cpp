#include <algorithm>
#include <cmath>

#include "hanse/client/updates.hpp"
#include "own_steps.hpp"

namespace hanse {

namespace {

class Apfl final : public OwnSteps {
 public:
  Apfl(const ClientOptions& options, const Federation& federation, Model& model)
      : OwnSteps(options, federation, model,
                 {{kModel, model.n_params()}, {kMixture, 1}, {kKnown, 1}}, RoundSteps(options)),
        start_(static_cast<float>(options.mixture)),
        adapts_(options.adapt),
        shrinkage_(options.variant == UpdateVariant::kReference ? kShrinkage : 0),
        mixed_(to_index(model.n_params())) {}

  std::string_view shown_block() const override { return kMixture; }
  bool keeps_own_model() const override { return true; }

  void own_model(const ClientTask& task) override {
    if (block(task.state, kKnown).front() == 0) return;
    mix(task);
    std::ranges::copy(mixed_, task.row.begin());
  }

  ClientOutcome train(const ClientTask& task) override {
    begin(task);
    const double lr = steps().schedule().rate(task.round);
    bool is_first = adapts_;
    double lost = 0;  // a loss of the mixture that is no number
    ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      if (is_first) learn_mixture(task, batch, noise, lr);
      is_first = false;
      const double mixed = find_mixed(task, batch, noise);
      if (!std::isfinite(mixed)) lost = mixed;
      const std::span<float> v = block(task.state, kModel);
      step(v, v, lr, static_cast<double>(block(task.state, kMixture).front()));
      return model_.sgd_step(task.row, batch, noise, lr, weight_decay_);
    });
    if (lost != 0) outcome.loss = lost;  // ends the run, as the row's would
    return outcome;
  }

 private:
  // v, a, and 1 once they are there.
  static constexpr const char* kModel = "model";
  static constexpr const char* kMixture = "mixture";
  static constexpr const char* kKnown = "known";
  static constexpr double kShrinkage = 0.02;  // of a, in the authors' code

  void begin(const ClientTask& task) {
    model_.receive({task.row});
    float& known = block(task.state, kKnown).front();
    if (known != 0) return;
    known = 1;
    std::ranges::copy(task.row, block(task.state, kModel).begin());
    block(task.state, kMixture).front() = start_;
  }

  // a v + (1 - a) w; at a = 0 and 1 one of them, bit for bit.
  void mix(const ClientTask& task) {
    const float a = block(task.state, kMixture).front();
    const std::span<const float> v = block(task.state, kModel), w = task.row;
    for (std::size_t i = 0; i < mixed_.size(); ++i) mixed_[i] = a * v[i] + (1 - a) * w[i];
  }

  // The gradient at the mixture; the row's step has the same dropout masks.
  double find_mixed(const ClientTask& task, Batch batch, RandomStream noise) {
    mix(task);
    batch.sample_losses = nullptr;
    return model_.loss_and_gradient(mixed_, batch, noise, gradient_);
  }

  // dF(v')/da = <v - w, grad F(v')>
  void learn_mixture(const ClientTask& task, const Batch& batch, const RandomStream& noise,
                     double lr) {
    find_mixed(task, batch, noise);
    float& a = block(task.state, kMixture).front();
    const std::span<const float> v = block(task.state, kModel);
    double slope = shrinkage_ * static_cast<double>(a);
    for (std::size_t i = 0; i < trained_; ++i) {
      slope += (static_cast<double>(v[i]) - static_cast<double>(task.row[i])) *
               static_cast<double>(gradient_[i]);
    }
    a = static_cast<float>(std::clamp(static_cast<double>(a) - lr * slope, 0.0, 1.0));
  }

  float start_;
  bool adapts_;
  double shrinkage_;
  std::vector<float> mixed_;  // [P]
};

}  // namespace

std::unique_ptr<LocalUpdate> make_apfl(const ClientOptions& options, const Federation& federation,
                                       Model& model) {
  return std::make_unique<Apfl>(options, federation, model);
}

}  // namespace hanse
