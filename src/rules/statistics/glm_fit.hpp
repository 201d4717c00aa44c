// Fisher scoring of one generalized linear model: which parameters to look at next, and when it
// ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/rules/statistics/options.hpp"

namespace hanse {

// What a look at all samples finds at some parameters.
struct GlmLook {
  double deviance = 0;
  std::vector<double> score;        // [q] sum of weight (y - mu) x
  std::vector<double> information;  // packed: sum of weight slope x x'
};

enum class FitEnd { kNone, kConverged, kDependent, kSeparated, kNoEnd };

class GlmFit {
 public:
  // Begins at `start` [q].
  GlmFit(GlmFamily family, std::vector<double> start, int64_t iterations, double tolerance);

  const std::vector<double>& parameters() const { return parameters_; }
  // Is a look at these parameters of use? Not where the largest |linear part| is out of reach: then
  // the step is halved.
  bool accepts(double largest_linear);
  // Takes a look at parameters(), and moves on.
  void take(GlmLook look);

  FitEnd end() const { return end_; }
  int64_t iterations() const { return iterations_; }
  double deviance() const { return deviance_; }
  // At the end: the last look's.
  const std::vector<double>& information() const { return information_; }
  int64_t dependent() const { return dependent_; }  // the row; with kDependent

 private:
  void halve();

  GlmFamily family_;
  int64_t most_;
  double tolerance_;
  std::vector<double> parameters_, before_;
  double deviance_;  // at the last parameters that were taken
  std::vector<double> information_;
  int64_t iterations_ = 0, halvings_ = 0, dependent_ = -1;
  bool is_last_ = false;  // the next look ends it
  FitEnd end_ = FitEnd::kNone;
};

}  // namespace hanse
