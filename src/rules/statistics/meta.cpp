#include "meta.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "features.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// sum w b / sum w and 1 / sqrt(sum w), for w = 1 / (error^2 + tau^2).
std::pair<double, double> common_effect(std::span<const double> estimates,
                                        std::span<const double> errors, double tau_squared) {
  double weights = 0, sum = 0;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    const double w = 1 / (errors[i] * errors[i] + tau_squared);
    weights += w;
    sum += w * estimates[i];
  }
  return {sum / weights, 1 / std::sqrt(weights)};
}

ResultTable fits_table(const std::string& name, const std::vector<std::string>& coefficients,
                       const std::vector<GroupFit>& fits) {
  ResultTable table{.name = name + "-groups",
                    .columns = {"group", "n", "name", "coefficient", "standard_error", "refusal"},
                    .shown = false};
  for (const GroupFit& fit : fits) {
    const Cell n = fit.n ? Cell(*fit.n) : Cell(kNoNumber);
    if (fit.estimates.empty()) {
      table.rows.push_back({fit.group, n, "", kNoNumber, kNoNumber, fit.refusal});
    }
    for (std::size_t j = 0; j < fit.estimates.size(); ++j) {
      table.rows.push_back({fit.group, n, coefficients[j], fit.estimates[j], fit.errors[j], ""});
    }
  }
  return table;
}

}  // namespace

MetaAnalysis meta_analysis(std::span<const double> estimates, std::span<const double> errors) {
  if (estimates.empty()) throw InvalidArgument("no group has an estimate");
  if (!std::ranges::all_of(errors, [](double e) { return e > 0 && std::isfinite(e); })) {
    throw InvalidArgument("a standard error is not positive and finite");
  }
  MetaAnalysis meta{.groups = static_cast<int64_t>(estimates.size())};
  std::tie(meta.fixed, meta.fixed_error) = common_effect(estimates, errors, 0);
  double weights = 0, squares = 0;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    const double w = 1 / (errors[i] * errors[i]), off = estimates[i] - meta.fixed;
    weights += w;
    squares += w * w;
    meta.q += w * off * off;
  }
  const double degrees = static_cast<double>(meta.groups - 1), beyond = meta.q - degrees;
  if (degrees > 0 && beyond > 0) {
    meta.tau_squared = beyond / (weights - squares / weights);
    meta.i_squared = beyond / meta.q;
  }
  meta.q_p = chi_squared_p(meta.q, degrees);
  std::tie(meta.random, meta.random_error) = common_effect(estimates, errors, meta.tau_squared);
  return meta;
}

std::vector<ResultTable> meta_tables(const std::string& name,
                                     const std::vector<std::string>& coefficients,
                                     const std::vector<GroupFit>& fits,
                                     std::span<const double> pooled,
                                     std::span<const double> pooled_errors, double level) {
  ResultTable table{name + "-meta",
                    {"name", "groups", "pooled", "pooled_error", "fixed", "fixed_error", "random",
                     "random_error", "Q", "p", "I2", "tau2", "random_low", "random_high"}};
  const double z = normal_quantile(level);
  for (std::size_t j = 0; j < coefficients.size(); ++j) {
    std::vector<double> estimates, errors;
    for (const GroupFit& fit : fits) {
      if (fit.estimates.empty()) continue;
      estimates.push_back(fit.estimates[j]);
      errors.push_back(fit.errors[j]);
    }
    if (estimates.empty()) continue;
    const MetaAnalysis m = meta_analysis(estimates, errors);
    table.rows.push_back({coefficients[j], m.groups, pooled[j], pooled_errors[j], m.fixed,
                          m.fixed_error, m.random, m.random_error, m.q, m.q_p, m.i_squared,
                          m.tau_squared, m.random - z * m.random_error,
                          m.random + z * m.random_error});
  }
  return {fits_table(name, coefficients, fits), std::move(table)};
}

}  // namespace hanse
