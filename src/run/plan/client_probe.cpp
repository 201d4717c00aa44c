#include "client_probe.hpp"

#include <algorithm>

#include "hanse/base/clock.hpp"
#include "hanse/protocol/evaluation.hpp"

namespace hanse {

namespace {

template <class Work>
double seconds_of(Work work) {
  const double start_s = monotonic_seconds();
  work();
  return monotonic_seconds() - start_s;
}

}  // namespace

ClientProbe::ClientProbe(const Federation& federation, Model& model, LocalUpdate& update,
                         std::span<const float> theta)
    : federation_(federation),
      update_(update),
      theta_(theta),
      row_(theta.begin(), theta.end()),
      state_(static_cast<std::size_t>(update.state_width())),
      change_(static_cast<std::size_t>(update.control_width())),
      evaluator_(federation, model) {
  if (update.control_returns()) control_.resize(change_.size());
}

ClientTask ClientProbe::task_of(int64_t client) {
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

double ClientProbe::train(int64_t client) {
  const ClientTask task = task_of(client);
  return seconds_of([&] { update_.train(task); });
}

double ClientProbe::make_own_model(int64_t client) {
  const ClientTask task = task_of(client);
  return seconds_of([&] { update_.own_model(task); });
}

double ClientProbe::evaluate(int64_t client) {
  return seconds_of([&] { evaluate_client(federation_, evaluator_.at(theta_), client); });
}

double ClientProbe::copy() {
  return seconds_of([&] { std::copy(theta_.begin(), theta_.end(), row_.begin()); });
}

double ClientProbe::add() {
  const std::vector<int64_t> others(row_.size(), 1);
  std::vector<int64_t> sum(row_.size(), 1);
  return seconds_of([&] {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += others[i];
  });
}

}  // namespace hanse
