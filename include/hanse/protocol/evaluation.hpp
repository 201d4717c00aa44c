// What the model is worth to each client, and the numbers that sum it up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// One client, evaluated on its own data.
struct ClientEvaluation {
  double samples = 0;        // test samples
  double loss = 0;           // mean test loss
  double accuracy = 0;       // share of test samples classified correctly
  double train_samples = 0;
  double train_loss = 0;     // mean loss over the training samples
};

// Evaluates the samples of one range; batches never leave it. `buffer` is reused between calls.
EvaluationSums evaluate_range(const Federation& federation, Model& model,
                              std::span<const float> row, SampleRange range,
                              std::vector<float>& buffer);

// The same on `count` samples of the range, a uniform subset drawn from `stream`; all of them when
// the range has fewer.
EvaluationSums evaluate_sample(const Federation& federation, Model& model,
                               std::span<const float> row, SampleRange range, int64_t count,
                               RandomStream stream, std::vector<float>& buffer);

// All clients in order on rank 0, empty elsewhere; the clients are spread over the ranks by their
// samples. `row` is read on every rank. Collective. Cost: one forward pass over all data.
std::vector<ClientEvaluation> evaluate_clients(Communicator& comm, const Federation& federation,
                                               Model& model, std::span<const float> row);

using Metrics = std::vector<std::pair<std::string, double>>;  // name, value; in report order

// Means, spread and fairness over clients; README has each definition. `previous_train_loss` [M] of
// the evaluation before gives `improved`; empty: NaN. Accuracies are left out for regression.
Metrics summarize(std::span<const ClientEvaluation> clients,
                  std::span<const double> previous_train_loss, bool classification);

}  // namespace hanse
