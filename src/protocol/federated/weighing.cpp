#include "federated/weighing.hpp"

#include <algorithm>
#include <utility>

#include "attempt.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/bcast_list.hpp"

namespace hanse {

void Weighing::drawn() {
  if (!needs_.losses && !needs_.after_training()) plan_.weigh(server_->mix({}));
}

void Weighing::measured(std::vector<double> losses, const RoundContext& round) {
  if (server_) attempt(round.failure, [&] { server_->take_losses(std::move(losses)); });
  if (needs_.after_training()) {
    comm_.barrier();  // nobody trains before everyone has found the queue of losses empty
    return;
  }
  if (server_) attempt(round.failure, [&] { plan_.weigh(server_->mix({})); });
  plan_.share(PlanMessage::kParticipants);
}

void Weighing::trained(const Findings& findings, const RoundContext& round) {
  const std::size_t size = plan_.size();
  std::vector<double> numbers(needs_.norms ? 2 * size : size);  // in the draw's order
  const auto statistics = std::span(numbers).first(size);
  const auto norms = std::span(numbers).subspan(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto position = static_cast<std::size_t>(plan_.entries()[i].position);
    statistics[position] = findings.of(i, Findings::kStatistic);
    if (needs_.norms) norms[position] = findings.of(i, Findings::kSquaredNorm);
  }
  comm_.allreduce(std::span(numbers), ReduceOp::kMax);
  if (std::ranges::find(statistics, kElsewhere) != statistics.end()) {
    return runner_.sink(round.sink).drop();
  }
  std::vector<int64_t> absent;
  if (server_) absent = server_->absent();
  if (needs_.last_updates) bcast_list(comm_, absent);
  const std::size_t updates = size + absent.size();
  std::vector<double> gram;
  if (needs_.gram) {
    gram = runner_.sink(round.sink).gram(static_cast<int64_t>(updates), absent, runner_.states());
  }
  combine({.gram = gram, .statistics = statistics, .norms = norms}, updates, round);
}

void Weighing::combine(const Weighable& found, std::size_t updates, const RoundContext& round) {
  std::vector<double> coefficients(layers_ * updates);
  if (server_) attempt(round.failure, [&] { coefficients = server_->mix(found); });
  comm_.bcast(std::span(coefficients), 0);
  if (server_ && !needs_.gram) plan_.weigh(coefficients);
  attempt(round.failure, [&] {
    const int64_t broken =
        runner_.sink(round.sink).combine(coefficients, static_cast<int64_t>(updates));
    if (broken < 0) return;
    throw TrainingError("the weighted update of a client is out of range", plan_.client_at(broken),
                        round.number, "aggregator.radius bounds the step");
  });
}

}  // namespace hanse
