// Meta-analysis: one estimate from those of groups that were each analysed alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

// With weights w = 1 / error^2, (G11):
//   fixed effect  sum w b / sum w, its error 1 / sqrt(sum w);
//   Q = sum w (b - fixed)^2, chi-squared of k - 1 degrees where all groups have one effect;
//   tau^2 = max(0, (Q - (k - 1)) / (sum w - sum w^2 / sum w)), DerSimonian and Laird 1986;
//   random effect and its error: the same with w = 1 / (error^2 + tau^2);
//   I^2 = max(0, (Q - (k - 1)) / Q), Higgins and Thompson 2002: the share of Q beyond chance.
struct MetaAnalysis {
  int64_t groups = 0;
  double fixed = 0, fixed_error = 0, random = 0, random_error = 0;
  double q = 0, q_p = 0;  // NaN of one group
  double tau_squared = 0, i_squared = 0;
};

// `estimates` [k] and their standard `errors` [k]. Throws InvalidArgument where k is 0 or an error
// is not positive and finite.
MetaAnalysis meta_analysis(std::span<const double> estimates, std::span<const double> errors);

// A group's own fit.
struct GroupFit {
  std::string group;
  std::optional<int64_t> n = {};          // samples; nothing: it is not told
  std::vector<double> estimates, errors;  // [p]; empty: there is no fit
  std::string refusal;                    // why there is none
};

// The tables NAME-groups, with a line for each group and coefficient, and NAME-meta, with one for
// each of the `coefficients` [p]: the effects of its groups beside the `pooled` estimates [p] and
// their errors [p], of all samples. Intervals have the `level`.
std::vector<ResultTable> meta_tables(const std::string& name,
                                     const std::vector<std::string>& coefficients,
                                     const std::vector<GroupFit>& fits,
                                     std::span<const double> pooled,
                                     std::span<const double> pooled_errors, double level);

}  // namespace hanse
