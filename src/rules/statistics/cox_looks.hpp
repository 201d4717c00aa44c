// The looks of Cox's model at samples: of all of them, or of one group's.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "cox_likelihood.hpp"
#include "survival_times.hpp"

namespace hanse {

// What Cox's model reads of a table.
struct CoxTable {
  explicit CoxTable(const AnalysisSetup& setup);

  StatisticsOptions options;
  TableFacts facts;
  SurvivalColumns survival;
  SampleGroups by, strata;
  std::vector<StatisticsFeature> features;

  std::size_t p() const { return features.size(); }
};

// kValues: of strata and groups. kTimes: of events by stratum; extremes of features. kCounts: by
// bin; sums of features. kReach: the largest x.b by bin. kTerms: CoxSums. kResidualReach: of score
// residuals. kResiduals: sums of their products.
enum class CoxStep : int64_t {
  kValues,
  kTimes,
  kCounts,
  kReach,
  kTerms,
  kResidualReach,
  kResiduals
};

// The samples of a question: all, or those of one group.
constexpr double kAllGroups = std::numeric_limits<double>::infinity();

// The numbers of a question, in this order; each list of numbers behind its size.
struct CoxQuestion {
  double group = kAllGroups;
  std::vector<double> strata;              // values; empty: they are not asked
  std::vector<std::vector<double>> times;  // [strata] of events
  std::vector<double> bounds;              // kCounts: [p] of |x|; kResiduals: [p] of residuals
  std::vector<double> means, reaches;      // [p] x = (value - mean) / 2^E, E of the reach
  std::vector<double> b;                   // [p]
  std::vector<double> tied, shifts;        // [J] of CoxBins, CoxSums
  std::vector<double> residual_rows;       // [J, 2 + 3 p]

  Question question(CoxStep step) const;
};

Findings open_cox(const CoxTable& table, const Question& question);
// Findings of kTimes: counts are of samples, of those with an event, and of those that lack a
// value; `largest` are of x_j and -x_j. Of kCounts: events and samples of each bin.
void look_cox(const CoxTable& table, const Question& question, const Samples& samples,
              Findings& findings);

}  // namespace hanse
