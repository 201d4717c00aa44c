// What the ranks find out of clients beside their training: losses of the received model, norms of
// their updates, scores of their own models. All are collective, with results on rank 0.
#pragma once

#include <span>
#include <vector>

#include "federated/client_runner.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/protocol/federated.hpp"

namespace hanse {

using MeasureParts = const FederatedTrainer::Parts&;

// On what the loss F_i of a client is measured: as many of its training samples as loss_samples()
// says, drawn anew in every round.
struct LossSamples {
  const Federation& federation;
  LocalWork work;
  int64_t batches;  // FederatedSettings::loss_batches
  uint64_t seed;
};
double training_loss(const LossSamples& on, int64_t round, int64_t client, Evaluator& model);

// Bytes that the participants send, each on a link of its own: its update, and what goes beside it.
// Local.
int64_t update_bytes(MeasureParts parts, const RoundContext& round);

// F_i at the received model on the participants' training samples, in the draw's order. Infinity
// stands for whatever is not finite.
std::vector<double> participants_losses(MeasureParts parts, const FederatedSettings& settings,
                                        const RoundContext& round, RoundAccount& account);

// |theta_i - theta|^2 of every client [M], had it taken part in this round. All train from the
// model and leave no trace: the same streams, a copy of their state. Cost: a round of all clients,
// and a reduction of M numbers.
std::vector<double> all_squared_steps(MeasureParts parts, const RoundContext& round);

// Evaluates each of these clients with its View::kTuned of the next round, own models on the rank
// that keeps the client's state; in client order, those held out last. ClientEvaluation::before is
// what the client had before tuning, or, for clients held out, the shared model's. Cost: a round of
// these clients where they keep no model and it is not tuned, else the steps. `counts` and
// `samples` are evaluate()'s.
EvaluationTable evaluate_viewed_models(MeasureParts parts, const FederatedSettings& settings,
                                       const RoundContext& round, std::span<const int64_t> clients,
                                       ClassCounts& counts, SampleTable& samples);

}  // namespace hanse
