// Rounds of rules that work on inner products: the updates stay on the ranks, or devices, that made
// them until rank 0 has weighed them by their Gram matrix.
#include <algorithm>
#include <cmath>

#include "attempt.hpp"
#include "findings.hpp"
#include "hanse/base/error.hpp"
#include "hanse/protocol/federated.hpp"
#include "kept_updates.hpp"

namespace hanse {

FoldResult FederatedTrainer::keep_update(const Assignment& mine) {
  const double squared_norm =
      kept_->keep(mine.position, row_, theta_, parts_.update.tells_update());
  return {.squared_norm = squared_norm, .in_range = std::isfinite(squared_norm)};
}

// Inner products to rank 0, coefficients back, and every rank folds what it kept. When a client
// failed, updates are missing; its rank says so at the end of the round, which is then dropped.
void FederatedTrainer::mix_kept(const Findings& findings) {
  directions_.skip();
  if (plan_.empty()) return;
  std::vector<double> rates(plan_.size());
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    rates[static_cast<std::size_t>(plan_[i].position)] = findings.of(i, Findings::kRate);
  }
  parts_.comm.allreduce(std::span(rates), ReduceOp::kMax);
  if (std::find(rates.begin(), rates.end(), kUnknown) != rates.end()) {
    return device_updates_ ? device_updates_->clear() : kept_->clear();
  }
  const auto k = static_cast<int64_t>(plan_.size());
  const auto gram = device_updates_ ? device_updates_->gram(k) : kept_->gram(k);
  const auto layers = device_updates_ ? device_updates_->layers() : kept_->layers();
  std::vector<double> coefficients(layers * plan_.size());
  if (is_server()) attempt([&] { coefficients = weigh_kept(rates, gram); });
  parts_.comm.bcast(std::span(coefficients), 0);
  attempt([&] { fold_kept(coefficients); });
}

// Rank 0: [layers, participants] in the draw's order.
std::vector<double> FederatedTrainer::weigh_kept(const std::vector<double>& rates,
                                                 std::span<const double> gram) {
  RoundReport told = report();
  told.gram = gram;
  if (parts_.aggregator.needs().rates) told.rates = rates;
  Mix mix = parts_.aggregator.mix(told);
  directions_.add(told.round, told.clients, gram, told.rates, mix);
  if (settings_.trace) {
    trace_.gram.assign(gram.begin(), gram.end());
    trace_.rates.assign(told.rates.begin(), told.rates.end());
  }
  for (double& c : mix.coefficients) c *= mix.direction.scale;
  return std::move(mix.coefficients);
}

void FederatedTrainer::fold_kept(std::span<const double> coefficients) {
  const auto k = static_cast<int64_t>(plan_.size());
  const int64_t broken = device_updates_ ? device_updates_->fold(coefficients, k, *device_sum_)
                                         : kept_->fold(coefficients, k, sum_);
  if (broken < 0) return;
  const auto entry = std::find_if(plan_.begin(), plan_.end(),
                                  [&](const auto& one) { return one.position == broken; });
  throw TrainingError("the weighted update of a client is out of range", entry->client,
                      completed_ + 1, "aggregator.radius bounds the step");
}

// Halves the step until the rule accepts the participants' losses behind it; when it never does,
// the model stays as it was. `before` is rank 0's model before the step.
void FederatedTrainer::backtrack(std::span<const float> before, bool failed) {
  int64_t over = failed || plan_.empty();
  parts_.comm.bcast(std::span(&over, 1), 0);
  const int64_t trials = parts_.aggregator.needs().trials;
  for (int64_t trial = 0; !over; ++trial) {
    share_model();
    const auto after = participants_losses();
    over = is_server() && parts_.aggregator.accepts(losses_, after);
    parts_.comm.bcast(std::span(&over, 1), 0);
    if (over) return;
    const float share = trial < trials ? 0.5F : 0.0F;
    for (std::size_t i = 0; i < before.size(); ++i) {
      theta_[i] = before[i] + share * (theta_[i] - before[i]);
    }
    model_is_shared_ = false;
    directions_.shorten(static_cast<double>(share));
    over = trial == trials;
  }
}

}  // namespace hanse
