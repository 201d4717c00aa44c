#include "federated/weighing.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attempt.hpp"
#include "federated/blame.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/index.hpp"
#include "hanse/comm/bcast_list.hpp"

namespace hanse {

Weighing::Weighing(const Parts& parts)
    : parts_(parts), layers_(row_parts(parts.layout, parts.needs.layers).size()) {}

RoundRoles Weighing::roles_of(std::span<const double> norms, int64_t round) const {
  RoundRoles roles;
  roles.clients.resize(parts_.plan.size());
  for (const Assignment& entry : parts_.plan.entries()) {
    roles.clients[to_index(entry.position)] = entry.client;
  }
  roles.byzantine.resize(roles.clients.size());
  roles.finite.resize(roles.clients.size(), 1);
  if (parts_.attackers) roles.byzantine = parts_.attackers->among(round, roles.clients);
  for (std::size_t i = 0; i < norms.size(); ++i) roles.finite[i] = std::isfinite(norms[i]);
  return roles;
}

void Weighing::drawn(int64_t round) {
  has_step_ = true;
  for (RoundPart* part : parts_.acting) part->drawn(round);
  if (!parts_.needs.losses && !parts_.needs.after_training()) weigh_before(round);
}

// Rank 0 weighs updates that nobody has made yet.
void Weighing::weigh_before(int64_t round) {
  const RoundRoles roles = roles_of({}, round);
  const Mix mix = mix_of(*parts_.server, {}, roles, round);
  has_step_ = parts_.server->has_weight();
  parts_.plan.weigh(mix.coefficients);
  tell_parts({.roles = roles, .coefficients = mix.coefficients});
}

void Weighing::tell_parts(const WeighedRound& weighed) const {
  for (RoundPart* part : parts_.acting) part->weighed(weighed);
}

void Weighing::measured(std::vector<double> losses, const RoundContext& round) {
  Server* const server = parts_.server;
  if (server) attempt(round.failure, [&] { server->take_losses(std::move(losses)); });
  if (parts_.needs.after_training()) {
    parts_.comm.barrier();  // nobody trains before everyone has found the queue of losses empty
    return;
  }
  if (server) attempt(round.failure, [&] { weigh_before(round.number); });
  parts_.plan.share(PlanMessage::kParticipants);
}

void Weighing::trained(Findings& findings, const RoundContext& round) {
  std::optional<KnownRound> known = gather(findings, round);
  if (!known) return parts_.runner.sink().kept()->drop();
  Mix mix;
  if (parts_.server) {
    attempt(round.failure,
            [&] { mix = mix_of(*parts_.server, known->told(), known->roles, round.number); });
  }
  if (!parts_.columns) return combine(*known, std::move(mix.coefficients));
  has_step_ = mix.columns && mix.columns->n > 0 && !round.failure;
  const auto found = parts_.columns->add(has_step_ ? &*mix.columns : nullptr, *known);
  if (parts_.server && found)
    tell_parts({.roles = known->roles, .coefficients = {}, .deviations = &*found});
}

// What the training has told of the updates, and of the rows that parts add. Nothing where an
// update is missing.
std::optional<KnownRound> Weighing::gather(Findings& findings, const RoundContext& round) {
  const AggregatorNeeds& needs = parts_.needs;
  const std::size_t size = parts_.plan.size();
  std::vector<double> numbers(needs.norms ? 2 * size : size);  // in the draw's order
  for (std::size_t i = 0; i < size; ++i) {
    const auto position = to_index(parts_.plan.entries()[i].position);
    numbers[position] = findings.of(i, Findings::kStatistic);
    if (needs.norms) numbers[size + position] = findings.of(i, Findings::kSquaredNorm);
  }
  parts_.comm.allreduce(std::span(numbers), ReduceOp::kMax);
  const auto middle = numbers.begin() + std::ssize(numbers) / (needs.norms ? 2 : 1);
  if (std::find(numbers.begin(), middle, kElsewhere) != middle) return std::nullopt;
  std::vector<int64_t> absent;
  if (parts_.server) absent = parts_.server->absent();
  if (needs.last_updates) bcast_list(parts_.comm, absent);

  KnownRound known{.context = round,
                   .findings = findings,
                   .kept = *parts_.runner.sink().kept(),
                   .statistics = {numbers.begin(), middle},
                   .norms = {middle, numbers.end()},
                   .updates = size + absent.size()};
  known.seen = known.rows = known.updates;
  if (needs.rejects || needs.columns || parts_.attackers)
    known.roles = roles_of(known.norms, round.number);
  for (RoundPart* part : parts_.acting) part->add_rows(known);
  if (needs.gram) {
    known.gram = known.kept.gram(static_cast<int64_t>(known.rows), absent, parts_.runner.states());
  }
  for (RoundPart* part : parts_.acting) part->products_known(known);
  return known;
}

// `coefficients`: what the rule gives on rank 0.
void Weighing::combine(const KnownRound& known, std::vector<double> coefficients) {
  const AggregatorNeeds& needs = parts_.needs;
  std::exception_ptr& failure = known.context.failure;
  const int64_t round = known.context.number;
  std::vector<double>& c = coefficients;
  if (c.empty()) c.resize(layers_ * known.seen);
  if (parts_.server && !needs.gram) parts_.plan.weigh(std::span(c).first(known.updates));
  if (parts_.server && !failure) note(known, c);
  c = known.spread(c);
  c.resize(layers_ * known.rows);
  attempt(failure, [&] {
    if (all_finite(c)) return;
    throw Divergence("the update that an attacker sends is not finite", blamed(known.roles), round,
                     "robust rules leave such updates out");
  });
  if (failure) std::ranges::fill(c, 0.0);
  parts_.comm.bcast(std::span(c), 0);
  attempt(failure, [&] {
    const int64_t broken = known.kept.combine(c, static_cast<int64_t>(known.rows));
    if (broken < 0) return;
    const bool has_radius = needs.rates || needs.extra_row == ExtraRow::kLastStep;
    throw Divergence("a weighted update is out of range", sender_of(broken, known), round,
                     has_radius ? "aggregator.radius bounds the step" : kSmallerSteps);
  });
}

// Rank 0.
void Weighing::note(const KnownRound& known, std::span<const double> coefficients) {
  const bool weighed = std::ranges::any_of(coefficients, [](double one) { return one != 0; });
  has_step_ = weighed || (!parts_.needs.rejects && parts_.server->has_weight());
  if (layers_ > 1 || known.roles.clients.empty() || !has_step_) return;
  const bool all_drawn = known.updates == known.roles.clients.size();
  tell_parts({.roles = known.roles,
              .coefficients = coefficients,
              .gram = all_drawn ? std::span<const double>(known.gram) : std::span<const double>()});
}

}  // namespace hanse
