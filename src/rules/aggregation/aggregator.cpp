#include "hanse/rules/aggregation/aggregator.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

double Aggregator::scale(const RoundReport&, std::span<const double>) const { return 1; }
bool Aggregator::accepts(std::span<const double>, std::span<const double>) const { return true; }
std::vector<double> Aggregator::decision() const { return {}; }
void Aggregator::save(State&) const {}
void Aggregator::load(const State&) {}

Estimator parse_estimator(const std::string& name) {
  return name == "unbiased" ? Estimator::kUnbiased : Estimator::kNormalized;
}

std::vector<double> estimate(std::span<const double> shares, std::span<const double> draw_weights,
                             Estimator estimator) {
  std::vector<double> coefficients(shares.size());
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    coefficients[i] = shares[i] * draw_weights[i];  // q_i w_i
    sum += coefficients[i];
  }
  if (estimator == Estimator::kUnbiased) return coefficients;
  if (!(sum > 0)) {
    throw InvalidArgument(fmt::format("the participants' weights sum to {}", sum), "aggregator",
                          "every participant needs a training sample");
  }
  for (double& coefficient : coefficients) coefficient /= sum;
  return coefficients;
}

void require_losses(std::span<const double> losses, double low) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!(losses[i] >= low) || std::isinf(losses[i])) {
      throw InvalidArgument(fmt::format("loss {} of participant {} is not a finite number{}",
                                        losses[i], i, low == 0 ? " >= 0" : ""),
                            "aggregator", "this rule cannot weigh it");
    }
  }
}

}  // namespace hanse
