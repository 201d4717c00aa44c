// A job's requests to evaluations: how many clients (evaluate.clients), on which of their samples
// (evaluate.on), and which metrics beside loss, accuracy and, for two classes, the area under the
// ROC curve (evaluate.metrics). Other metrics are not computed.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/evaluation/evaluate_on.hpp"
#include "hanse/evaluation/sample_scores.hpp"

namespace hanse {

struct AskedMetrics {
  bool top5 = false;
  bool balanced_accuracy = false;
  bool f1 = false;
  bool classes = false;      // per class, over all clients: classes.csv
  bool confusion = false;    // labels and the classes predicted for them: confusion.csv
  SampleScores scores = {};  // beside these
  EvaluateOn on = EvaluateOn::kTest;
  int64_t clients = 0;  // drawn for each evaluation; 0: all
  uint64_t seed = 0;    // of the draw

  bool of_one_class() const { return top5 || balanced_accuracy || f1 || classes || confusion; }
  bool any() const { return of_one_class() || scores[0].kind >= 0; }
};

// Reads names separated by commas. Throws InvalidArgument: an unknown one.
AskedMetrics asked_metrics(const std::string& names, EvaluateOn on = EvaluateOn::kTest);

// Throws InvalidArgument when data with such labels do not define a metric: top5 needs more than
// five classes, f1 two, confusion a thousand at most.
void check_asked(const AskedMetrics& asked, const LabelForm& labels);

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
