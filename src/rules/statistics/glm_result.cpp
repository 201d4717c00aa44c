#include "glm_result.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "features.hpp"
#include "hanse/base/choice.hpp"
#include "information.hpp"
#include "meta.hpp"

namespace hanse {

namespace {

// Coefficients of the table's own features, and their covariance.
struct TableFit {
  std::vector<double> coefficients;  // [q]
  std::vector<double> covariance;    // packed
};

// b = T beta: from the scaled, centred features back to the table's. [q, q] by rows.
std::vector<double> back_transform(const GlmAnswer& answer) {
  const std::size_t q = answer.parameters.size(), first = answer.intercept ? 1 : 0;
  std::vector<double> by(q * q, 0.0);
  if (answer.intercept) by[0] = 1;
  for (std::size_t j = 0; j < answer.names.size(); ++j) {
    by[(j + first) * q + j + first] = answer.scales[j];
    if (answer.intercept) by[j + first] = -answer.means[j] * answer.scales[j];
  }
  return by;
}

// (information)^-1 times phi, or around the sandwich's filling.
std::vector<double> scaled_covariance(const std::vector<double>& information, std::size_t q,
                                      double phi, const std::vector<double>& sandwich) {
  std::vector<double> inverse = Information(information, q).inverse();
  if (sandwich.empty()) {
    for (double& entry : inverse) entry *= phi;
    return inverse;
  }
  std::vector<double> square(q * q);
  for (std::size_t i = 0; i < q; ++i) {
    for (std::size_t j = 0; j < q; ++j) square[i * q + j] = inverse[packed_place(i, j)];
  }
  return transformed(sandwich, square, q);
}

TableFit table_fit(const GlmAnswer& answer, const std::vector<double>& parameters,
                   const std::vector<double>& covariance) {
  const std::size_t q = parameters.size();
  const std::vector<double> by = back_transform(answer);
  TableFit fit{std::vector<double>(q, 0.0), transformed(covariance, by, q)};
  for (std::size_t i = 0; i < q; ++i) {
    for (std::size_t j = 0; j < q; ++j) fit.coefficients[i] += by[i * q + j] * parameters[j];
  }
  return fit;
}

double log_likelihood_of(const GlmAnswer& answer, GlmFamily family) {
  if (family == GlmFamily::kBinomial) return -answer.deviance / 2;
  if (family == GlmFamily::kPoisson) return answer.saturated - answer.deviance / 2;
  return -answer.n / 2 * (std::log(2 * M_PI * answer.deviance / answer.n) + 1);
}

ResultTable coefficient_table(const GlmAnswer& answer, const StatisticsOptions& options,
                              const TableFit& fit) {
  const bool gaussian = options.family == GlmFamily::kGaussian;
  ResultTable table{
      "glm", {"name", "coefficient", "standard_error", gaussian ? "t" : "z", "p", "low", "high"}};
  if (!gaussian) {
    const std::string ratio = options.family == GlmFamily::kBinomial ? "odds_ratio" : "rate_ratio";
    for (const char* end : {"", "_low", "_high"}) table.columns.push_back(ratio + end);
  }
  const double degrees = answer.n - static_cast<double>(fit.coefficients.size());
  const double wide =
      gaussian ? student_quantile(options.level, degrees) : normal_quantile(options.level);
  for (std::size_t i = 0; i < fit.coefficients.size(); ++i) {
    const bool constant = answer.intercept && i == 0;
    const double b = fit.coefficients[i];
    const double error = std::sqrt(fit.covariance[packed_place(i, i)]), z = b / error;
    table.rows.push_back({constant ? "(constant)" : answer.names[i - (answer.intercept ? 1 : 0)], b,
                          error, z, gaussian ? student_p(z, degrees) : normal_p(z),
                          b - wide * error, b + wide * error});
    if (gaussian) continue;
    for (const double end : {b, b - wide * error, b + wide * error}) {
      table.rows.back().emplace_back(std::exp(end));
    }
  }
  return table;
}

// The groups' own fits, and the meta-analysis of them beside the pooled one.
std::vector<ResultTable> group_tables(const GlmAnswer& answer, const StatisticsOptions& options,
                                      const TableFit& pooled) {
  const std::size_t q = pooled.coefficients.size();
  std::vector<std::string> names = answer.names;
  if (answer.intercept) names.insert(names.begin(), "(constant)");
  std::vector<double> pooled_errors;
  for (std::size_t i = 0; i < q; ++i) {
    pooled_errors.push_back(std::sqrt(pooled.covariance[packed_place(i, i)]));
  }
  std::vector<GroupFit> fits;
  for (const GlmGroup& group : answer.groups) {
    GroupFit& fit = fits.emplace_back(GroupFit{.group = group.name, .refusal = group.why_not});
    const bool hidden = group.n < static_cast<double>(options.least_count);
    if (!hidden) fit.n = std::llround(group.n);
    if (hidden) fit.refusal = fmt::format("fewer than {} samples", options.least_count);
    if (!fit.refusal.empty()) continue;
    const double degrees = group.n - static_cast<double>(q);
    const double phi = options.family == GlmFamily::kGaussian ? group.deviance / degrees : 1;
    const TableFit own =
        table_fit(answer, group.parameters, scaled_covariance(group.information, q, phi, {}));
    for (std::size_t i = 0; i < q; ++i) {
      fit.errors.push_back(std::sqrt(own.covariance[packed_place(i, i)]));
    }
    if (std::ranges::all_of(fit.errors, [](double e) { return e > 0 && std::isfinite(e); })) {
      fit.estimates = own.coefficients;
    } else {
      fit.errors.clear();
      fit.refusal = "no more samples than coefficients";
    }
  }
  return meta_tables("glm", names, fits, pooled.coefficients, pooled_errors, options.level);
}

}  // namespace

StatisticsResult glm_result(const GlmAnswer& answer, const StatisticsOptions& options) {
  const std::size_t q = answer.parameters.size();
  const bool gaussian = options.family == GlmFamily::kGaussian;
  const double degrees = answer.n - static_cast<double>(q);
  const double phi = gaussian ? answer.deviance / degrees : 1;
  const TableFit fit = table_fit(answer, answer.parameters,
                                 scaled_covariance(answer.information, q, phi, answer.sandwich));
  const double ll = log_likelihood_of(answer, options.family);
  StatisticsResult result;
  result.facts = {{"family", name_of(options.family)},
                  {"target", answer.target},
                  {"n", answer.n},
                  {"left_out", answer.left_out},
                  {"iterations", answer.iterations},
                  {"deviance", answer.deviance},
                  {"null_deviance", answer.null_deviance},
                  {"dispersion", phi},
                  {"log_likelihood", ll},
                  {"aic", 2 * static_cast<double>(q) - 2 * ll},
                  {"bic", std::log(answer.n) * static_cast<double>(q) - 2 * ll}};
  result.tables.push_back(coefficient_table(answer, options, fit));
  if (answer.groups.empty()) return result;
  for (ResultTable& table : group_tables(answer, options, fit)) {
    result.tables.push_back(std::move(table));
  }
  return result;
}

}  // namespace hanse
