#include "hanse/rules/aggregation/aggregator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"
#include "hanse/rules/formula/formula.hpp"

namespace hanse {

namespace {

class FunctionRule final : public Aggregator {
 public:
  FunctionRule(const AggregatorNeeds& needs, std::function<Mix(const RoundReport&)> mix)
      : needs_(needs), mix_(std::move(mix)) {}
  AggregatorNeeds needs() const override { return needs_; }
  Mix mix(const RoundReport& report) override { return mix_(report); }

 private:
  AggregatorNeeds needs_;
  std::function<Mix(const RoundReport&)> mix_;
};

}  // namespace

double Aggregator::scale(const RoundReport&, std::span<const double>) const { return 1; }
bool Aggregator::accepts(std::span<const double>, std::span<const double>) const { return true; }

std::unique_ptr<Aggregator> make_rule(const AggregatorNeeds& needs,
                                      std::function<Mix(const RoundReport&)> mix) {
  return std::make_unique<FunctionRule>(needs, std::move(mix));
}

std::unique_ptr<Aggregator> make_fedavg(ClientWeights weights, Estimator estimator,
                                        int64_t clients) {
  const bool by_samples = weights == ClientWeights::kSamples;
  const double equal_share = 1.0 / static_cast<double>(clients);
  return make_rule({.sizes = by_samples}, [=](const RoundReport& report) -> Mix {
    if (by_samples) return {estimate(report.lambda, report.draw_weights, estimator)};
    const std::vector<double> shares(report.clients.size(), equal_share);
    return {estimate(shares, report.draw_weights, estimator)};
  });
}

std::unique_ptr<Aggregator> make_capped_fedavg(double cap, double all, Estimator estimator) {
  return make_rule({.sizes = true}, [=](const RoundReport& report) -> Mix {
    std::vector<double> shares;
    for (const double samples : report.samples) {
      shares.push_back(capped_share(samples, cap) / all);
    }
    return {estimate(shares, report.draw_weights, estimator)};
  });
}

std::vector<double> shares_of(const RoundReport& report, ClientWeights weights) {
  if (weights == ClientWeights::kSamples) return {report.lambda.begin(), report.lambda.end()};
  return std::vector<double>(report.clients.size(), 1.0);
}

std::vector<double> estimate(std::span<const double> shares, std::span<const double> draw_weights,
                             Estimator estimator) {
  std::vector<double> coefficients(shares.size());
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    coefficients[i] = shares[i] * draw_weights[i];  // q_i w_i
    sum += coefficients[i];
  }
  if (estimator != Estimator::kNormalized) return coefficients;
  if (!std::isfinite(sum)) {
    throw NotFinite(fmt::format("the participants' weights sum to {}", number_text(sum)), "",
                    "milder values of the rule's keys may help");
  }
  if (sum <= 0) {
    throw InvalidArgument(fmt::format("the participants' weights sum to {}", sum), "aggregator",
                          "every participant needs a training sample");
  }
  for (double& coefficient : coefficients) coefficient /= sum;
  return coefficients;
}

void require_losses(std::span<const double> losses, double low) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (losses[i] >= low && std::isfinite(losses[i])) continue;
    const std::string what = fmt::format("loss {} of participant {} is not a finite number{}",
                                         number_text(losses[i]), i, low == 0 ? " >= 0" : "");
    const char* hint = "this rule cannot weigh it";
    if (!std::isfinite(losses[i])) throw NotFinite(what, "", hint);
    throw InvalidArgument(what, "aggregator", hint);
  }
}

StepView view_step(std::span<const double> gram, std::span<const double> coefficients, int64_t k,
                   int64_t absent) {
  const auto n = static_cast<std::size_t>(k);
  StepView view;
  view.products.resize(n);
  std::vector<double> squares(n);
  for (std::size_t layer = 0; layer * n < coefficients.size(); ++layer) {
    const auto g = gram.subspan(layer * n * n, n * n);
    const auto c = coefficients.subspan(layer * n, n);
    for (std::size_t i = 0; i < n; ++i) {
      const double product = inner_product(g.subspan(i * n, n), c);  // (G c)_i
      view.products[i] += product;
      view.squared_norm += c[i] * product;
      squares[i] += g[i * n + i];
    }
  }
  view.squared_norm = std::max(0.0, view.squared_norm);
  view.products.resize(n - static_cast<std::size_t>(absent));
  for (std::size_t i = 0; i < view.products.size(); ++i) {
    const double lengths = std::sqrt(squares[i] * view.squared_norm);
    if (squares[i] > 0 && !(view.products[i] > 0)) ++view.conflicts;
    view.angles.push_back(lengths > 0
                              ? std::acos(std::clamp(view.products[i] / lengths, -1.0, 1.0)) * 180 /
                                    std::numbers::pi
                              : std::numeric_limits<double>::quiet_NaN());
  }
  return view;
}

std::unique_ptr<Aggregator> make_by_formula(const std::string& text, int64_t clients) {
  const Formula formula(
      text, {"n", "lambda", "w", "F", "norm", "K", "M", "round", "staleness", "duration"},
      "aggregator.formula");
  const bool late = formula.uses("norm");
  const AggregatorNeeds needs{.sizes = formula.uses("n") || formula.uses("lambda"),
                              .losses = formula.uses("F"),
                              .norms = late,
                              .late = late};
  return make_rule(needs, [formula, clients](const RoundReport& report) -> Mix {
    const auto k = static_cast<double>(report.clients.size());
    const auto m = static_cast<double>(clients);
    const auto round = static_cast<double>(report.round);
    std::vector<double> staleness(report.staleness.begin(), report.staleness.end());
    std::vector<double> durations(report.durations.begin(), report.durations.end());
    staleness.resize(report.clients.size());
    durations.resize(report.clients.size());
    std::vector<double> values = formula.evaluate(
        {report.samples, report.lambda, report.draw_weights, report.losses, report.norms,
         std::span(&k, 1), std::span(&m, 1), std::span(&round, 1), staleness, durations},
        report.clients.size());
    require_weights(formula, values, report.clients, report.round);
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    for (double& value : values) value /= sum;
    return {.coefficients = std::move(values)};
  });
}

}  // namespace hanse
