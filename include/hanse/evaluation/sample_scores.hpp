// Metrics that are sums over samples, for ranking, several labels a sample, regression and language
// models. jobs/results-and-metrics.md defines each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

constexpr std::size_t kMostScores = 8;  // of one job

// Such a metric: its place in the table of sample_scores.cpp, -1: none; and k of NAME@k.
struct SampleScore {
  int64_t kind = -1;
  int64_t k = 0;

  bool operator==(const SampleScore&) const = default;
};
using SampleScores = std::array<SampleScore, kMostScores>;  // behind the last one there are none

// The sums behind a metric, which is part / whole, or a function of it; NaN: whole is 0.
struct ScoreSum {
  double part = 0;
  double whole = 0;

  ScoreSum& operator+=(const ScoreSum& more) {
    part += more.part;
    whole += more.whole;
    return *this;
  }
};
using ScoreSums = std::array<ScoreSum, kMostScores>;

// "recall@5"; nothing for an unknown name. Throws InvalidArgument: @k is missing, or too much.
std::optional<SampleScore> sample_score(const std::string& text);
// All names, "recall@k".
std::vector<std::string> sample_score_names();
// "recall_at_5", the name of its column.
std::string score_column(const SampleScore& score);
// Is a small value of the metric NAME, NAME_worst and so on the better one?
bool is_small_better_score(const std::string& name);
// Throws InvalidArgument when data with such labels do not define the metric.
void check_sample_score(const SampleScore& score, const LabelForm& labels);

// The results of an evaluation that metrics need.
struct ScoredSamples {
  // Room for so many samples; `ranks`: keep ranks even if no sample score is asked for.
  ScoredSamples(const SampleScores& scores, const LabelForm& labels, int64_t samples, bool ranks);
  SampleResults results();

  std::vector<int32_t> ranks;  // [samples, positions]; empty: not needed
  std::vector<float> outputs;  // [samples, values of a label]; empty: not needed
  int64_t values;              // of a label
};

// Sums the scores of a range's samples, whose results stand in their order. `loss` is the sum of
// their losses. Cost: for several labels a sort of each sample's classes.
ScoreSums sum_scores(const SampleScores& scores, const Federation& federation, SampleRange range,
                     const ScoredSamples& found, double loss);
double score_value(const SampleScore& score, const ScoreSum& sum);

}  // namespace hanse
