#include "federated/measure.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "attempt.hpp"
#include "hanse/base/random.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

double training_loss(const LossSamples& on, int64_t round, int64_t client, Evaluator& model) {
  const SampleRange range = on.federation.train(client);
  const int64_t count = loss_samples(on.work, on.batches, range.size());
  if (count >= range.size()) return model.range(range).loss / static_cast<double>(count);
  std::vector<int32_t> order(static_cast<std::size_t>(range.size()));
  std::iota(order.begin(), order.end(), 0);
  RandomStream(on.seed, Purpose::kLoss, static_cast<uint64_t>(round), static_cast<uint64_t>(client))
      .shuffle(std::span(order));
  const auto chosen = std::span(order).first(static_cast<std::size_t>(count));
  return model.chosen(range.begin, chosen).loss / static_cast<double>(count);
}

int64_t update_bytes(MeasureParts parts, const RoundContext& round) {
  const int64_t beside = 4 * (parts.update.control_width() + parts.stages.second_row_width());
  int64_t bytes = 0;
  for (const Assignment& one : round.plan.entries()) {
    const int64_t n = parts.update.sent_values(round.number, one.client, parts.model.layout());
    bytes += parts.stages.update_bytes(n) + beside;
  }
  return bytes;
}

std::vector<double> participants_losses(MeasureParts parts, const FederatedSettings& settings,
                                        const RoundContext& round, RoundAccount& account) {
  std::vector<double> losses(round.plan.size(), kElsewhere);
  const LossSamples on{parts.federation, parts.update.steps().work(), settings.loss_batches,
                       settings.seed};
  round.plan.for_mine([&](std::size_t entry) {
    const Assignment& mine = round.plan.entries()[entry];
    double& loss = losses[static_cast<std::size_t>(mine.position)];
    loss = 1;  // stands in after a failure; the round is dropped then
    attempt(round.failure, [&] {
      const RoundContext own = round.of(entry);
      Evaluator& model = parts.runner->view(own, mine.client, View::kReceived);
      loss = training_loss(on, own.number, mine.client, model);
    });
    if (!std::isfinite(loss)) loss = std::numeric_limits<double>::infinity();
  });
  account.set_others_bytes(
      bring(parts.comm, losses, account.own_bytes(parts.runner->bytes_moved())));
  return losses;
}

std::vector<double> all_squared_steps(MeasureParts parts, const RoundContext& round) {
  std::vector<double> squared(static_cast<std::size_t>(parts.federation.clients()), kElsewhere);
  parts.runner->find_squared_steps(round, squared);
  parts.comm.reduce(std::span(squared), ReduceOp::kMax, 0);
  return squared;
}

EvaluationTable evaluate_viewed_models(MeasureParts parts, const FederatedSettings& settings,
                                       const RoundContext& round, std::span<const int64_t> clients,
                                       ClassCounts& counts, SampleTable& samples) {
  const Federation& federation = parts.federation;
  EvaluationRequest own{.clients = {}, .asked = settings.asked};
  if (settings.own_models) {
    for (const int64_t client : clients) {
      if (round.plan.homes().keeps(client)) own.clients.push_back(client);
    }
  } else {
    own.clients = evaluation_share(parts.comm, federation, clients);
  }
  ClientRunner& runner = *parts.runner;
  const auto tuned_model = [&](std::size_t i) -> Evaluator& {
    return runner.view(round, own.clients[i], View::kTuned);
  };
  auto found = evaluate(federation, own, tuned_model, &counts, &samples);
  EvaluationRequest before{.clients = {}, .split = Split::kTest, .asked = settings.asked};
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool held_out = own.clients[i] >= federation.clients();
    if (parts.tuner == nullptr && !held_out) continue;
    places.push_back(i);
    before.clients.push_back(own.clients[i]);
  }
  const auto earlier = evaluate(federation, before, [&](std::size_t i) -> Evaluator& {
    const bool held_out = before.clients[i] >= federation.clients();
    return held_out ? runner.evaluator(round.model)
                    : runner.view(round, before.clients[i], View::kOwn);
  });
  for (std::size_t i = 0; i < places.size(); ++i) {
    found.set_before(places[i], earlier[i].test_scores());
  }
  found.gather(parts.comm, own.clients);
  return found;
}

}  // namespace hanse
