// What the model is worth to each client, and the numbers that sum it up.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/client/evaluator.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// Of one model on a client's test samples; as in ClientEvaluation.
struct TestScores {
  double loss, accuracy, auroc;
};

// One client, evaluated on its own data.
struct ClientEvaluation {
  double samples = 0;   // test samples
  double loss = 0;      // mean test loss
  double accuracy = 0;  // share of test samples classified correctly
  double train_samples = 0;
  double train_loss = 0;                                    // mean loss over the training samples
  double auroc = std::numeric_limits<double>::quiet_NaN();  // over the test samples; see below
  // With the shared model, when all of the above is of the client's own and it never took part.
  std::optional<TestScores> before = std::nullopt;

  TestScores test_scores() const { return {loss, accuracy, auroc}; }
};

// Area under the ROC curve: the chance that a sample of class 1 scores above one of class 0, ties
// counted half. By the rank sum, (R_1 - n_1 (n_1 + 1) / 2) / (n_1 n_0), R_1 the sum of the ranks of
// class 1, equal scores sharing their mean rank (Hanley and McNeil 1982). NaN when a class is
// missing or a score is NaN. Cost O(n log n).
double area_under_roc(std::span<const float> scores, std::span<const int32_t> labels);

// Of `count` samples of the range, a uniform subset drawn from `stream`; of all of them when the
// range has fewer.
EvaluationSums evaluate_sample(Evaluator& evaluator, SampleRange range, int64_t count,
                               RandomStream stream);

// One client's own test and training samples.
ClientEvaluation evaluate_client(const Federation& federation, Evaluator& evaluator,
                                 int64_t client);

// All clients in order on rank 0, those held out of training behind the others, empty elsewhere;
// they are spread over the ranks by their samples. REQUIRES: the ranks' evaluators have the same
// model. Collective. Cost: one forward pass over all data.
std::vector<ClientEvaluation> evaluate_clients(Communicator& comm, const Federation& federation,
                                               Evaluator& evaluator);

using Metrics = std::vector<std::pair<std::string, double>>;  // name, value; in report order

// Means, spread and fairness over clients; jobs/results-and-metrics.md defines each.
// `previous_train_loss` [M] of the evaluation before gives `improved`; empty: NaN. Accuracies are
// left out for regression (classes = 0), `auroc` unless there are two classes; it is NaN when no
// client has both in its test samples.
Metrics summarize(std::span<const ClientEvaluation> clients,
                  std::span<const double> previous_train_loss, int64_t classes);

// The same of the clients held out of training, named held_out_*, without what is of training; of
// what they had before their own training named held_out_before_*. Nothing when there are none.
Metrics summarize_held_out(std::span<const ClientEvaluation> clients, int64_t classes);

}  // namespace hanse
