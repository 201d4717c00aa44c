#include "hanse/rules/aggregation/by_formula.hpp"

#include <numeric>

#include "hanse/rules/formula/formula.hpp"

namespace hanse {

std::unique_ptr<Aggregator> make_by_formula(const std::string& text, int64_t clients) {
  const Formula formula(text, {"n", "lambda", "w", "F", "norm", "K", "M", "round"},
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
    std::vector<double> values =
        formula.evaluate({report.samples, report.lambda, report.draw_weights, report.losses,
                          report.norms, std::span(&k, 1), std::span(&m, 1), std::span(&round, 1)},
                         report.clients.size());
    require_weights(formula, values, report.clients, report.round);
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    for (double& value : values) value /= sum;
    return {.coefficients = std::move(values)};
  });
}

}  // namespace hanse
