#include "federated/column_stepping.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/blame.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/index.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/comm/bcast_state.hpp"

namespace hanse {

ColumnStep ColumnStepping::step_of(const ColumnMix& mix, const KnownRound& known) {
  ColumnStep step{.mix = {.rule = mix.rule, .map = {}, .n = mix.n, .weights = mix.weights},
                  .honest = known.roles.honest(),
                  .shares = std::vector<double>(to_index(mix.n))};
  const std::size_t k = known.updates;
  for (std::size_t a = 0; a < to_index(mix.n); ++a) {
    const auto weights = std::span(mix.map).subspan(a * k, k);
    double sum = 0, byzantine = 0;
    for (std::size_t i = 0; i < k; ++i) {
      sum += weights[i];
      if (known.roles.byzantine[i]) byzantine += weights[i];
    }
    step.shares[a] = sum > 0 ? byzantine / sum : 0;
    const auto wide = known.spread(weights);
    step.mix.map.insert(step.mix.map.end(), wide.begin(), wide.end());
  }
  return step;
}

// Lets this rank's rule of one's own begin the round.
OwnStep ColumnStepping::own_step(const ColumnStep& step, const RoundContext& round) {
  if (own_ == nullptr) return nullptr;
  State state;
  if (rule_) attempt(round.failure, [&] { rule_->save(state); });
  bcast_state(comm_, state);
  attempt(round.failure, [&] { own_->begin(round.number, state); });
  return [&](std::span<const double> values, std::span<double> out) {
    attempt(round.failure, [&] { own_->step(values, step.mix.weights, out); });
  };
}

ColumnDeviations ColumnStepping::make(ColumnStep& step, const KnownRound& known,
                                      const WriteColumns& write, LargestEntry* largest) {
  const auto rows = static_cast<int64_t>(known.rows);
  bcast_mix(comm_, step.mix, rows);
  if (step.mix.n == 0) return {};
  bcast_list(comm_, step.honest);
  step.shares.resize(to_index(step.mix.n));
  comm_.bcast(std::span(step.shares), 0);
  const bool marked = std::ranges::any_of(step.shares, [](double share) { return share > 0; });
  return mix_by_columns(comm_, exchange_, known.kept.rows(), rows, step.mix,
                        {.honest = step.honest,
                         .byzantine_shares = marked ? std::span<const double>(step.shares)
                                                    : std::span<const double>()},
                        write, own_step(step, known.context), largest);
}

std::optional<ColumnDeviations> ColumnStepping::add(const ColumnMix* mix, const KnownRound& known) {
  ColumnStep step;
  if (mix != nullptr) step = step_of(*mix, known);
  bool fits = true;
  LargestEntry largest;
  const ColumnDeviations found = make(
      step, known,
      [&](int64_t begin, std::span<const double> values) {
        fits = known.kept.add_entries(begin, values) && fits;
      },
      &largest);
  known.kept.drop();
  attempt(known.context.failure, [&] {
    if (fits) return;
    const int64_t sender = sender_of(largest.position, known);
    const auto attackers = known.roles.at(known.roles.attacking());
    const bool attacks = std::ranges::count(attackers, sender) > 0;
    throw Divergence(
        fmt::format("an entry of the step is out of range: {:.3g}, and the sum takes {:.3g}",
                    largest.value, UpdateSum::limit(1)),
        sender, known.context.number,
        attacks ? "attackers may move this rule without a bound: is aggregator.byzantine at least "
                  "their number?"
                : kSmallerSteps);
  });
  if (step.mix.n == 0 || step.honest.empty()) return std::nullopt;
  return found;
}

// The map, who is honest, and the rows themselves, of as many mapped rows as updates.
void send_columns(const FederatedFacts& facts, double updates, int64_t ranks,
                  RoundFootprint& footprint) {
  constexpr const char* kKind = "columns";
  constexpr double kNumber = sizeof(double), kCount = sizeof(int64_t);
  const double k = facts.participants;
  footprint.broadcast(kKind, sizeof(ColumnRule) + kCount);
  footprint.broadcast(kKind, kNumber * k * updates);
  if (facts.needs.own_columns) {
    footprint.broadcast(kKind, kNumber * k);  // weights
    footprint.broadcast(kKind, kCount);       // of the rule's state, which is small
  }
  footprint.broadcast(kKind, kCount);
  footprint.broadcast(kKind, kCount * k);
  footprint.broadcast(kKind, kNumber * k);
  const GramTraffic rows = row_traffic(facts.parts, updates, ranks);
  footprint.add(kKind, rows.bytes, rows.messages, rows.operations);
  const auto blocks = static_cast<double>(block_count(facts.parts));
  const double elsewhere = blocks - std::ceil(blocks / static_cast<double>(ranks));
  footprint.gather(kKind, sizeof(ColumnDeviations) * elsewhere);
}

}  // namespace hanse
