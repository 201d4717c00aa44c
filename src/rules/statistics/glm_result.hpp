// The table of a generalized linear model, from what its fit has found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

// The fit of one group of samples.
struct GlmGroup {
  std::string name;
  std::string why_not;              // it has no answer; empty: it has
  std::vector<double> parameters;   // as in GlmAnswer
  std::vector<double> information;  // packed
  double deviance = 0;
  double n = 0;  // sum of weights
};

// Parameters and matrices are those of the constant, if there is one, and of features
// (x - mean) scale.
struct GlmAnswer {
  std::string target;
  std::vector<std::string> names;  // [p] of features
  bool intercept = true;
  int64_t used = 0, left_out = 0;     // samples
  double n = 0;                       // sum of weights
  double saturated = 0;               // poisson: the log-likelihood at mu = y
  std::vector<double> means, scales;  // [p]
  std::vector<double> parameters;     // [q]
  std::vector<double> information;    // packed [q]
  std::vector<double> sandwich;       // packed; empty: not asked for
  double deviance = 0, null_deviance = 0;
  int64_t iterations = 0;
  std::vector<GlmGroup> groups = {};
};

StatisticsResult glm_result(const GlmAnswer& answer, const StatisticsOptions& options);

}  // namespace hanse
