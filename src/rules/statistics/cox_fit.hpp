// One fit of Cox's model, as questions and answers: Newton's steps to the largest partial
// likelihood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cox_looks.hpp"
#include "information.hpp"

namespace hanse {

struct CoxEstimate {
  int64_t n = 0, events = 0, missing = 0, iterations = 0;
  std::vector<double> coefficients;  // [p] of the features as they are
  std::vector<double> errors;        // [p] robust ones, where these are asked for
  std::vector<double> naive_errors;  // [p] by the information
  std::vector<double> means;         // [p] of the features
  double null_log_likelihood = 0, log_likelihood = 0;
  // Chi-squared of p degrees where no feature counts: 2 (l(b) - l(0)); b' V^-1 b; U' I^-1 U at 0.
  double likelihood_ratio = 0, wald = 0, score = 0;
  CoxBins bins;
  std::vector<double> hazard;  // [bins] cumulative baseline hazard at the features' means
};

class CoxFit {
 public:
  // `strata` are the values of the strata, where these are asked for.
  CoxFit(const CoxTable& table, std::vector<double> strata, double group = kAllGroups);

  // Nothing: the estimate is there.
  std::optional<Question> question() const;
  // Throws InvalidArgument: no event, a feature that is constant or depends on others or separates
  // samples with events from those without, too many times, no end.
  void hear(Findings findings);

  const CoxEstimate& estimate() const { return estimate_; }
  // NaN before the first point.
  double log_likelihood() const { return steps_ < 0 ? kNoNumber : point_.log_likelihood; }

 private:
  void take_times(Findings& findings);
  void take_counts(Findings& findings);
  void take_reach(const Findings& findings);
  void take_terms(Findings& findings);
  void take_residuals(Findings& findings);
  void check_size() const;
  // Judges the point tried: it is halved, or taken.
  void judge(CoxPoint point);
  void take_step();
  bool is_done(double decrement) const;
  void check_separation(double decrement, const std::vector<double>& step) const;
  void try_at(std::vector<double> b);
  void check_features() const;
  void finish(const Information& information);
  [[noreturn]] void refuse_separation() const;

  const CoxTable& table_;
  CoxStep step_ = CoxStep::kTimes;
  bool has_ended_ = false;
  CoxQuestion asked_;
  CoxBins bins_;
  std::vector<double> mins_, maxs_;  // [p]
  CoxSums tried_, found_;            // of the b that is tried, and of the one taken
  CoxPoint point_;                   // of the one taken
  int64_t steps_ = -1, halvings_ = 0;
  double last_decrement_ = 0;
  CoxEstimate estimate_;
};

}  // namespace hanse
