#include "trial.hpp"

#include <algorithm>

#include "hanse/base/clock.hpp"

namespace hanse {

namespace {

template <class Work>
double seconds_of(Work work) {
  const double start_s = monotonic_seconds();
  work();
  return monotonic_seconds() - start_s;
}

}  // namespace

Trial::Trial(const FederatedAssembly& parts, Model& model, LocalUpdate& update, Reduction reduction)
    : parts_(parts),
      model_(model),
      update_(update),
      theta_(parts.trainer->model_row()),
      row_(theta_.begin(), theta_.end()),
      state_(static_cast<std::size_t>(update.state_width())),
      change_(static_cast<std::size_t>(update.control_width())),
      sum_(model.n_params(), 2, reduction),
      control_sum_(update.control_width(), 2, reduction),
      evaluator_(parts.federation, model) {
  if (update.control_returns()) control_.resize(change_.size());
}

ClientTask Trial::task_of(int64_t client) {
  std::copy(theta_.begin(), theta_.end(), row_.begin());
  std::fill(state_.begin(), state_.end(), 0.0F);
  std::fill(change_.begin(), change_.end(), 0.0F);
  return {.client = client,
          .round = 1,
          .seed = 0,
          .row = row_,
          .state = state_,
          .control = control_,
          .control_change = change_};
}

double Trial::train(int64_t client) {
  const ClientTask task = task_of(client);
  sum_.clear();
  return seconds_of([&] {
    update_.train(task);
    sum_.fold(row_, update_.tells_update() ? std::span<const float>() : theta_, 0.5);
    control_sum_.fold(change_, {}, 0.5);
  });
}

double Trial::make_own_model(int64_t client) {
  const ClientTask task = task_of(client);
  return seconds_of([&] { update_.own_model(task); });
}

double Trial::evaluate(int64_t client) {
  return seconds_of([&] { evaluate_client(parts_.federation, evaluator_.at(theta_), client); });
}

double Trial::copy() {
  return seconds_of([&] { std::copy(theta_.begin(), theta_.end(), row_.begin()); });
}

double Trial::add() {
  others_.resize(row_.size(), 1);
  total_.resize(row_.size(), 1);
  return seconds_of([&] {
    for (std::size_t i = 0; i < total_.size(); ++i) total_[i] += others_[i];
  });
}

double Trial::step_server(ServerOptimizer& optimizer, double rate) {
  std::vector<float> theta(theta_.begin(), theta_.end());
  std::vector<float> step(theta.size());
  return seconds_of([&] {
    sum_.take(step);
    control_sum_.take(change_);
    if (control_.empty()) optimizer.observe(change_);
    const auto n = static_cast<std::size_t>(model_.layout().n_trainable());
    optimizer.step(std::span(theta).first(n), std::span(step).first(n), rate);
    std::copy(theta.begin(), theta.end(), row_.begin());
  });
}

double Trial::bytes() const {
  const auto floats = row_.size() + state_.size() + control_.size() + change_.size();
  return 4.0 * static_cast<double>(floats) +
         8.0 * static_cast<double>(row_.size() + change_.size() + others_.size() + total_.size());
}

}  // namespace hanse
