#include <algorithm>

#include "hanse/client/updates.hpp"
#include "own_steps.hpp"

namespace hanse {

namespace {

// The steps of a round, each of two mini-batches.
RoundSteps steps_of_two(ClientOptions options) {
  options.accumulate = 2;
  return RoundSteps(options);
}

class PerFedAvg final : public OwnSteps {
 public:
  PerFedAvg(const ClientOptions& options, const Federation& federation, Model& model)
      : OwnSteps(options, federation, model, {}, steps_of_two(options)),
        inner_(inner_steps(options)),
        ahead_(to_index(model.n_params())) {}

  void own_model(const ClientTask&) override {}  // the received one; what tunes it is not here

  ClientOutcome train(const ClientTask& task) override {
    model_.receive({task.row});
    const double lr = steps().schedule().rate(task.round), inner_lr = inner_.rate(task.round);
    int64_t left = 0;  // mini-batches
    bool looked = false;
    return batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      if (left == 0) left = batches_.steps();
      --left;
      if (!looked && left > 0) {
        looked = true;
        return look_ahead(task.row, batch, noise, inner_lr);
      }
      if (!looked) {  // left alone
        Batch other = batch;
        other.sample_losses = nullptr;
        look_ahead(task.row, other, noise, inner_lr);
      }
      looked = false;
      const double loss = model_.loss_and_gradient(ahead_, batch, noise, gradient_);
      step(task.row, ahead_, lr);
      return loss;
    });
  }

 private:
  // w' = w - inner_lr grad F(w)
  double look_ahead(std::span<const float> row, const Batch& batch, RandomStream& noise,
                    double rate) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient_);
    std::ranges::copy(row, ahead_.begin());
    step(ahead_, row, rate);
    return loss;
  }

  Schedule inner_;
  std::vector<float> ahead_;  // [P] w'
};

}  // namespace

std::unique_ptr<LocalUpdate> make_per_fedavg(const ClientOptions& options,
                                             const Federation& federation, Model& model) {
  return std::make_unique<PerFedAvg>(options, federation, model);
}

}  // namespace hanse
