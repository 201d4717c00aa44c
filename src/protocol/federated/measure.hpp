// What the ranks find out of clients beside their training: losses of the received model, what each
// would report, what its own model is worth. All collective, with results on rank 0.
#pragma once

#include <span>
#include <vector>

#include "federated/engine.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "hanse/protocol/evaluation.hpp"
#include "hanse/protocol/federated.hpp"

namespace hanse {

using MeasureParts = const FederatedTrainer::Parts&;

// F_i at the received model on the participants' training samples, in the draw's order. Infinity
// stands for whatever is not finite.
std::vector<double> participants_losses(MeasureParts parts, const FederatedSettings& settings,
                                        const RoundContext& round, RoundAccount& account);

// |theta_i - theta|^2 of every client [M], had it taken part in this round. All train from the
// model and leave no trace: the same streams, a copy of their state. Cost: a round of all clients,
// and a reduction of M numbers. REQUIRES: engine.solo().
std::vector<double> all_squared_steps(MeasureParts parts, const RoundContext& round);

// Each of these clients with the model that it would make of the shared one in the next round, on
// the rank that keeps its state; in client order, those held out behind. Cost: where clients keep
// no model, a round of all clients. REQUIRES: engine.solo().
std::vector<ClientEvaluation> evaluate_own_models(MeasureParts parts, const RoundContext& round,
                                                  std::span<const int64_t> clients,
                                                  const AskedMetrics& asked, ClassCounts& counts);

}  // namespace hanse
