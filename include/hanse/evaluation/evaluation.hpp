// The model's scores for each client, and the numbers that sum them up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/client/evaluator.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/asked_metrics.hpp"
#include "hanse/evaluation/evaluation_table.hpp"

namespace hanse {

class SampleTable;

// Area under the ROC curve: the chance that a sample of class 1 scores above one of class 0, ties
// counted half. By the rank sum, (R_1 - n_1 (n_1 + 1) / 2) / (n_1 n_0), R_1 the sum of the ranks of
// class 1; equal scores share their mean rank (Hanley and McNeil 1982). NaN when a class is missing
// or a score is NaN. Cost O(n log n).
double area_under_roc(std::span<const float> scores, std::span<const int32_t> labels);

// The samples on which a client is evaluated; has its training left them out?
SampleRange evaluated_samples(const Federation& federation, int64_t client, EvaluateOn on);
bool evaluated_apart(const Federation& federation, int64_t client, EvaluateOn on);

// The clients to evaluate, and their samples.
enum class Split { kTest, kBoth };
struct EvaluationRequest {
  std::vector<int64_t> clients;
  Split split = Split::kBoth;
  AskedMetrics asked = {};
};

// The clients to evaluate after `round` rounds, in ascending order: all that have samples, or
// `asked.clients` of those in training, of those for validation and of those held out for tests,
// each a uniform choice of the seed and the round. Cost: O(clients).
std::vector<int64_t> evaluated_clients(const Federation& federation, const AskedMetrics& asked,
                                       int64_t round);

// Evaluations in the request's order; with kTest the training fields are NaN, the training samples
// 0. `model_of` gives the model of the request's i-th client. Adds the clients in training to
// `counts`, where classes are asked for, and all samples to `samples`, where it is asked for. Cost:
// one forward pass over the samples.
EvaluationTable evaluate(const Federation& federation, const EvaluationRequest& request,
                         const std::function<Evaluator&(std::size_t i)>& model_of,
                         ClassCounts* counts = nullptr, SampleTable* samples = nullptr);

// Bytes that rank 0 takes at most for an evaluation of so many clients of data with so many
// classes, and for its summary. `before`: with ClientEvaluation::before of all.
double evaluation_bytes(int64_t clients, int64_t classes, const AskedMetrics& asked, bool before);

// This rank's share of these clients, when any rank may evaluate any client: the shares have about
// equally many samples.
std::vector<int64_t> evaluation_share(const Communicator& comm, const Federation& federation,
                                      std::span<const int64_t> clients);

// A number for a CSV field, to nine digits; empty for NaN.
std::string number_or_nothing(double value);
// The same to the last digit where the number is whole in microseconds, as those of a clock and
// bytes are.
std::string counted_or_nothing(double value);

// Means, spread and fairness over clients; jobs/metrics.md defines each.
// `previous_train_loss` [M] of the evaluation before gives `improved`, over the last round's
// participants, and `train_loss_fell`, over all; clients of which it is NaN are left out of both,
// which are NaN when it is empty. Accuracies are left out for regression (classes = 0), `auroc` and
// its spread unless there are two classes, other metrics unless they are asked for. A metric counts
// and skips clients that have no such number; without any it is NaN.
Metrics summarize(const EvaluationView& clients, std::span<const double> previous_train_loss,
                  int64_t classes, const AskedMetrics& asked = {});

// As summarize(), without the training metrics; every name starts with `prefix`.
Metrics summarize_tests(const std::string& prefix, const EvaluationView& clients, int64_t classes,
                        const AskedMetrics& asked = {});

// The clients that are not held out of training, in order.
EvaluationView trained_clients(const EvaluationTable& clients, const Federation& federation);

// Sums up all evaluated clients, in order, those in training in front: summarize(), and by
// summarize_tests()
//   held_out_*           clients held out of training: for tests, or with
//                        evaluate.on = validation for validation
//   held_out_before_*    these before their own training
//   before_*             clients in training before evaluate.tune-steps
//   validation_*         with evaluate.on = both, on the validation samples, and
//   validation_held_out_*  clients for validation.
//   clients_evaluated    where they are drawn: the number of those in training
// Protocols that evaluate no held-out clients leave theirs out.
Metrics summarize_all(const EvaluationTable& clients, std::span<const double> previous_train_loss,
                      const Federation& federation, const AskedMetrics& asked = {});

// Adds NAME, the mean of the values of repeated runs, and for several runs NAME_std, their
// deviation (of a sample: n - 1).
void add_over_repeats(Metrics& metrics, const std::string& name, std::span<const double> values);

// PREFIXcommon_loss, for classes PREFIXcommon_accuracy, and the asked metrics (PREFIXcommon_top5)
// of one model on rank 0; empty elsewhere, and without such a set. Each rank evaluates a share of
// the samples. Pieces are added in order, so that the sums have the same bits on any number of
// ranks. Adds the samples to rank 0's `samples`, where that is asked for. Collective. Memory of
// rank 0: the samples' scores, where metrics need them all, or `samples` does.
Metrics evaluate_common_test(const Federation& federation, Evaluator& model, Communicator& comm,
                             const std::string& prefix, const AskedMetrics& asked = {},
                             SampleTable* samples = nullptr);

// The names of those metrics without a prefix.
std::vector<std::string> common_test_names(const Federation& federation, const AskedMetrics& asked);

}  // namespace hanse
