// Metrics of the probabilities that a model gives one class a sample. Each is a sum over samples,
// or needs all samples of a client at once; the table of sample_scores.cpp says which.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/evaluation/asked_metrics.hpp"

namespace hanse {

// P(class 1) = 1 / (1 + exp(-z)).
double logistic(double z);

// Samples of one class each, and what a model says of them.
struct ClassScores {
  std::span<const int32_t> labels;  // [samples] in [0, classes)
  // The score z of class 1 of two (SampleResults::scores), else the logits; [samples, 1 or
  // classes].
  std::span<const float> scores;
  int64_t classes = 0;

  int64_t width() const { return classes == 2 ? 1 : classes; }
  // Writes the probabilities [classes] of sample i.
  void probabilities(int64_t i, std::span<double> p) const;
};

// The sum of the samples' scores of Brier (1950): (p - y)^2 of class 1 where there are two, as
// sklearn's brier_score_loss has it; else sum_k (p_k - y_k)^2.
ScoreSum brier(const ClassScores& samples);

// Each of the following returns its value as part, and 1 as whole; 0 of 0 where it is not defined.
// A NaN among the scores makes it NaN.

// Expected calibration error (Guo et al. 2017, equation 3): sum_b |B_b| / n |acc(B_b) - conf(B_b)|,
// B_b the samples whose largest probability lies in ((b - 1) / 15, b / 15].
ScoreSum calibration_error(const ClassScores& samples);
// Area under the ROC curve of each class against the rest, by its probability: the mean over the
// classes that the samples have, each counted once, or as often as it has samples. Not defined
// without two classes. Cost: O(classes n log n).
ScoreSum macro_auroc(const ClassScores& samples);
ScoreSum prevalence_auroc(const ClassScores& samples);
// Average precision, sum_t (R_t - R_{t-1}) P_t over the different scores t from the highest on, as
// sklearn has it: of class 1 where there are two, else the mean over the classes that the samples
// have. Not defined without a sample of class 1.
ScoreSum average_precision_of_classes(const ClassScores& samples);

}  // namespace hanse
