// A job's requests to evaluations: how many clients (evaluate.clients), on which of their samples
// (evaluate.on), and which metrics beside loss, accuracy and, for two classes, the area under the
// ROC curve (evaluate.metrics). Other metrics are not computed.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/evaluate_on.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

constexpr std::size_t kMostScores = 8;  // of one job

// A metric of samples, for probabilities, ranking, several labels a sample, regression and language
// models (jobs/metrics.md defines each): its place in the table of sample_scores.cpp, which says
// whether it is a sum over samples or needs all of a client at once, -1: none; and k of NAME@k.
struct SampleScore {
  int64_t kind = -1;
  int64_t k = 0;

  bool operator==(const SampleScore&) const = default;
};
using SampleScores = std::array<SampleScore, kMostScores>;  // behind the last one there are none

// The sums behind a metric, which is part / whole, or a function of it; NaN: whole is 0. Of one
// that needs all samples: its value, and 1.
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

double score_value(const SampleScore& score, const ScoreSum& sum);

struct AskedMetrics {
  bool auroc = false, accuracy = false;  // they come on their own, where the data have them
  bool top5 = false;
  bool balanced_accuracy = false;
  bool f1 = false;
  bool classes = false;      // per class, over all clients: classes.csv
  bool confusion = false;    // labels and the classes predicted for them: confusion.csv
  bool lora_gap = false;     // of a round's adapters, in rounds.csv
  SampleScores scores = {};  // beside these
  EvaluateOn on = EvaluateOn::kTest;
  int64_t clients = 0;        // drawn for each evaluation; 0: all
  uint64_t seed = 0;          // of the draw
  bool sample_table = false;  // the scores of each sample: SampleTable

  bool of_one_class() const { return top5 || balanced_accuracy || f1 || classes || confusion; }
  bool any() const { return of_one_class() || scores[0].kind >= 0; }
};

// Reads names separated by commas. Throws InvalidArgument: an unknown one.
AskedMetrics asked_metrics(const std::string& names, EvaluateOn on = EvaluateOn::kTest);

// Throws InvalidArgument when data with such labels do not define a metric: top5 needs more than
// five classes, f1 two, confusion and the table of samples a thousand at most.
void check_asked(const AskedMetrics& asked, const LabelForm& labels);

// The numbers that a model says of a sample: of two classes the score of class 1, else a logit for
// each class, or its value for each value of the label.
inline int64_t said_values(const LabelForm& labels) {
  return labels.classes > 2 ? labels.classes : labels.values;
}

// The results of an evaluation that metrics and the table of samples need.
struct ScoredSamples {
  // Room for so many samples; `ranks`: keep ranks even if no metric of samples is asked for;
  // `auroc`: of two classes the scores.
  ScoredSamples(const AskedMetrics& asked, const LabelForm& labels, int64_t samples, bool ranks,
                bool auroc = false);
  SampleResults results();
  // What the model says of each sample, said_values() each; empty: not needed.
  std::span<const float> said() const { return scores.empty() ? outputs : scores; }

  std::vector<int32_t> ranks;  // [samples, positions]; empty: not needed
  std::vector<float> scores;   // [samples] of class 1 of two; empty: not needed
  std::vector<float> outputs;  // [samples, width]; empty: not needed
  int64_t values, width;       // of a label; said_values()
};

// Sums the scores of a range's samples, whose results stand in their order. `loss` is the sum of
// their losses. Metrics that need all samples at once are left out. Cost: for several labels a sort
// of each sample's classes.
ScoreSums sum_scores(const SampleScores& scores, const Federation& federation, SampleRange range,
                     const ScoredSamples& found, double loss);
// Fills in the metrics that need all samples at once, those of `range`, of which the model says
// `said`. Cost: a sort of the samples for each class.
void add_whole_scores(const SampleScores& scores, const Federation& federation, SampleRange range,
                      std::span<const float> said, ScoreSums& sums);
bool needs_whole_range(const SampleScores& scores);

// Counts of samples with labels in [0, classes) by their ranks (SampleResults); -1 is no label.
struct RankCounts {
  std::vector<int64_t> samples, correct;  // [classes], by label
  int64_t top5 = 0;                       // samples with a rank below 5

  RankCounts(std::span<const int32_t> labels, std::span<const int32_t> ranks, int64_t classes);
  RankCounts& operator+=(const RankCounts& more);
};

constexpr std::array<double, kMostScores> no_scores() {
  std::array<double, kMostScores> scores = {};
  scores.fill(std::numeric_limits<double>::quiet_NaN());
  return scores;
}

// NaN: not asked for, or not defined for the samples.
//   top5               share of the samples with a rank below 5
//   balanced_accuracy  mean over the present labels of the share classified correctly
//   f1                 of class 1 of two: 2 TP / (2 TP + FP + FN); not defined without a sample of
//                      class 1 and one predicted as it
struct AskedScores {
  double top5 = std::numeric_limits<double>::quiet_NaN();
  double balanced_accuracy = std::numeric_limits<double>::quiet_NaN();
  double f1 = std::numeric_limits<double>::quiet_NaN();
  std::array<double, kMostScores> more = no_scores();  // of AskedMetrics::scores
};
AskedScores asked_scores(const AskedMetrics& asked, const RankCounts& counts,
                         const ScoreSums& sums = {});

// Name and value of each asked metric, in a fixed order.
std::vector<std::pair<std::string, double>> named_scores(const AskedMetrics& asked,
                                                         const AskedScores& scores);

// Name of each asked metric, in that order, and the place of its number among AskedScores'.
std::vector<std::pair<std::string, std::size_t>> score_places(const AskedMetrics& asked);

// Test samples of each class over the clients of an evaluation.
struct ClassCounts {
  std::vector<int64_t> clients, samples, correct;  // [classes]
  std::vector<int64_t> confusion;  // [classes, classes] label by predicted class; or empty

  explicit ClassCounts(int64_t classes, const AskedMetrics& asked = {});
  void add(const RankCounts& client);
  // Adds one client. REQUIRES: confusion is asked for.
  void add(std::span<const int32_t> labels, std::span<const int32_t> taken_for);
};

// Lines "round,label,clients,samples,accuracy" of the classes, on rank 0; empty elsewhere, and when
// not asked for. A class that no client has is left out. Collective.
std::string class_lines(const AskedMetrics& asked, ClassCounts counts, int64_t round,
                        Communicator& comm);
constexpr const char* kClassColumns = "round,label,clients,samples,accuracy";

// The content of confusion.csv: the columns' names, and lines "label,predicted,samples" of the
// pairs that occur. Like class_lines() otherwise.
std::string confusion_text(const AskedMetrics& asked, ClassCounts counts, Communicator& comm);

}  // namespace hanse
