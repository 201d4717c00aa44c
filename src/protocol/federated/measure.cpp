#include "federated/measure.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "attempt.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

double training_loss(const MeasureParts& parts, const RoundContext& round, int64_t client) {
  const FederatedSettings& settings = parts.settings;
  const SampleRange range = parts.federation.train(client);
  const RandomStream stream(settings.seed, Purpose::kLoss, static_cast<uint64_t>(round.number),
                            static_cast<uint64_t>(client));
  const int64_t count = loss_samples(settings.loss_batches, settings.client, range.size());
  Evaluator& evaluator = parts.engine.received_model(client, round.model);
  const EvaluationSums sums = evaluate_sample(evaluator, range, count, stream);
  const double loss = sums.loss / static_cast<double>(sums.samples);
  return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<double> participants_losses(const MeasureParts& parts, const RoundContext& round,
                                        RoundAccount& account) {
  std::vector<double> losses(round.plan.size(), Findings::kElsewhere);
  round.plan.for_mine([&](std::size_t entry) {
    const Assignment& mine = round.plan.entries()[entry];
    double& loss = losses[static_cast<std::size_t>(mine.position)];
    loss = 1;  // stands in after a failure; the round is dropped then
    attempt(round.failure, [&] { loss = training_loss(parts, round, mine.client); });
  });
  account.merge(parts.comm, losses, parts.engine.bytes_moved());
  return losses;
}

std::vector<double> all_squared_steps(const MeasureParts& parts, const RoundContext& round) {
  std::vector<double> squared(static_cast<std::size_t>(parts.federation.clients()),
                              Findings::kElsewhere);
  for (int64_t client = 0; client < parts.federation.clients(); ++client) {
    if (!round.plan.homes().keeps(client)) continue;
    auto& found = squared[static_cast<std::size_t>(client)];
    found = 0;  // stands in after a failure; the round is dropped then
    attempt(round.failure, [&] { found = parts.engine.solo()->squared_step(round, client); });
  }
  parts.comm.reduce(std::span(squared), ReduceOp::kMax, 0);
  return squared;
}

std::vector<ClientEvaluation> evaluate_own_models(const MeasureParts& parts,
                                                  const RoundContext& round) {
  const Federation& federation = parts.federation;
  std::vector<int64_t> clients;
  std::vector<ClientEvaluation> mine;
  for (int64_t client = 0; client < federation.clients() + federation.held_out(); ++client) {
    if (!round.plan.homes().keeps(client)) continue;
    std::optional<TestScores> before;
    if (client >= federation.clients()) {
      Evaluator& shared = parts.engine.shared_model(round.model);
      before = evaluate_client(federation, shared, client).test_scores();
    }
    Evaluator& own = parts.engine.solo()->own_model(round, client);
    clients.push_back(client);
    mine.push_back(evaluate_client(federation, own, client));
    mine.back().before = before;
  }
  const auto all_clients = parts.comm.gatherv(std::span<const int64_t>(clients), 0);
  const auto found = parts.comm.gatherv(std::span<const ClientEvaluation>(mine), 0);
  std::vector<ClientEvaluation> all(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    all[static_cast<std::size_t>(all_clients[i])] = found[i];
  }
  return all;
}

}  // namespace hanse
