#include "federated/weighing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "attempt.hpp"
#include "federated/blame.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/comm/bcast_state.hpp"
#include "hanse/rules/attack/certain_step.hpp"

namespace hanse {

namespace {

constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Robustness kUnknown{kUnmeasured, kUnmeasured, kUnmeasured};

}  // namespace

Weighing::Weighing(const Parts& parts)
    : parts_(parts),
      layers_(row_parts(parts.layout, parts.needs.layers).size()),
      robustness_(kUnknown) {
  const int64_t size = parts.layout.n_params();
  if (parts.needs.forged) {
    forging_.emplace(parts.comm, *parts.attackers, size, parts.settings.max_participants,
                     forging_rows(parts.needs));
  }
  if (parts.needs.columns) columns_.emplace(parts.comm, row_parts(parts.layout, false));
  if (parts.server == nullptr) return;
  if (parts.needs.extra_row == ExtraRow::kServer) server_row_.resize(to_index(size));
  const bool looks_back = parts.needs.extra_row == ExtraRow::kLastStep || parts.needs.last_step;
  if (looks_back) last_step_.resize(to_index(size));
}

void Weighing::visit(StateFields& fields) {
  if (!last_step_.empty()) fields.fixed("last_step", last_step_);
  if (forging_) fields.part("attack", *parts_.attackers);
}

void Weighing::add_columns(Columns& columns) const {
  if (!parts_.needs.rejects && parts_.attackers == nullptr) return;
  columns.add_to_rounds([this] {
    Metrics metrics{{"kappa_hat", robustness_.kappa},
                    {"byzantine_weight", robustness_.byzantine_weight},
                    {"honest_recall", robustness_.honest_recall}};
    if (forging_)
      metrics.emplace_back("attack_strength", forges_ ? forging_->strength() : kUnmeasured);
    return metrics;
  });
}

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
  robustness_ = kUnknown;
  forges_ = false;
  has_step_ = true;
  if (!parts_.needs.losses && !parts_.needs.after_training()) weigh_before(round);
}

// Rank 0 weighs updates that nobody has made yet.
void Weighing::weigh_before(int64_t round) {
  const RoundRoles roles = roles_of({}, round);
  const Mix mix = mix_of(*parts_.server, {}, roles, round);
  has_step_ = parts_.server->has_weight();
  parts_.plan.weigh(mix.coefficients);
  if (parts_.attackers) measure_weights(mix.coefficients, roles);
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
  const AggregatorNeeds& needs = parts_.needs;
  UpdateSink& sink = parts_.runner.sink();
  const std::size_t size = parts_.plan.size();
  std::vector<double> numbers(needs.norms ? 2 * size : size);  // in the draw's order
  for (std::size_t i = 0; i < size; ++i) {
    const auto position = static_cast<std::size_t>(parts_.plan.entries()[i].position);
    numbers[position] = findings.of(i, Findings::kStatistic);
    if (needs.norms) numbers[size + position] = findings.of(i, Findings::kSquaredNorm);
  }
  parts_.comm.allreduce(std::span(numbers), ReduceOp::kMax);
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(size);
  Known known{.statistics = {numbers.begin(), middle}, .norms = {middle, numbers.end()}};
  if (std::ranges::find(known.statistics, kElsewhere) != known.statistics.end()) {
    return sink.drop();
  }
  std::vector<int64_t> absent;
  if (parts_.server) absent = parts_.server->absent();
  if (needs.last_updates) bcast_list(parts_.comm, absent);
  known.updates = size + absent.size();
  if (needs.rejects || needs.columns || parts_.attackers)
    known.roles = roles_of(known.norms, round.number);

  auto rows = static_cast<int64_t>(known.updates);
  if (needs.extra_row != ExtraRow::kNone) bring_own_row(sink, to_index(rows++), round);
  forges_ = forging_ && forging_->begin(round.number, known.roles);
  if (forges_) {
    forging_->make_rows(sink, rows, last_step_);
    rows = forging_->rows();
  }
  if (needs.gram) known.gram = sink.gram(rows, absent, parts_.runner.states());
  if (forges_) forge(known, findings, round);
  combine(known, round);
}

// Rank 0 weighs the rule's own row at this position.
void Weighing::bring_own_row(UpdateSink& sink, std::size_t position, const RoundContext& round) {
  if (!parts_.server) return;
  const bool last = parts_.needs.extra_row == ExtraRow::kLastStep;
  if (!last) {
    attempt(round.failure, [&] { (*parts_.root)(round.number, round.model, server_row_); });
  }
  sink.add_row({static_cast<int64_t>(position), last ? last_step_ : server_row_});
}

// Decides the forged row. Where it is tried by columns, all ranks take part in that. Collective.
void Weighing::forge(Known& known, Findings& findings, const RoundContext& round) {
  if (parts_.server) {
    const std::vector<double> gram = known.gram;
    attempt(round.failure, [&] {
      forging_->decide(gram, [&](const std::vector<double>& row) {
        return displacement(row, gram, known, round);
      });
      known.gram = forging_->products(gram);
    });
    int64_t more = 0;
    if (parts_.needs.columns) parts_.comm.bcast(std::span(&more, 1), 0);
  } else if (parts_.needs.columns) {
    serve_trials(round);
  }
  const std::size_t n = static_cast<std::size_t>(forging_->mean_row());
  for (std::size_t i = 0; i < parts_.plan.size(); ++i) {
    const auto at = static_cast<std::size_t>(parts_.plan.entries()[i].position);
    if (!known.roles.byzantine[at]) continue;
    findings.of(i, Findings::kSquaredNorm) = kElsewhere;
    if (!parts_.server || round.failure) continue;
    const double square = known.gram[at * n + at];
    known.roles.finite[at] = std::isfinite(square);
    known.norms[at] = std::isfinite(square) ? square : kInfinity;
    findings.of(i, Findings::kSquaredNorm) = known.norms[at];
  }
}

// |F - h|^2 when the attackers send this row [R]; gram [R, R]. Rank 0.
double Weighing::displacement(const std::vector<double>& row, std::span<const double> gram,
                              Known known, const RoundContext& round) {
  forging_->try_row(row);
  known.gram = forging_->products(gram);
  const std::size_t n = static_cast<std::size_t>(forging_->mean_row());
  for (std::size_t i = 0; i < known.norms.size(); ++i) known.norms[i] = known.gram[i * n + i];
  const Mix mix = parts_.server->trial(
      {.gram = known.gram, .statistics = known.statistics, .norms = known.norms});
  const GramView all{gram, static_cast<std::size_t>(forging_->rows())};
  std::optional<std::vector<double>> coefficients = mix.coefficients;
  if (parts_.needs.columns) {
    if (!mix.columns) return all(n, n);
    coefficients = certain_step(*mix.columns);
  }
  if (!coefficients) {
    int64_t more = 1;
    parts_.comm.bcast(std::span(&more, 1), 0);
    ColumnStep step = column_step(*mix.columns, known);
    step.honest = {forging_->mean_row()};
    step.shares.assign(step.shares.size(), 0);
    return mix_columns(step, forging_->rows(), round, nullptr, nullptr).step;
  }
  std::vector<double> away = forging_->spread(*coefficients);
  away[n] -= 1;
  return all.product(away, away);
}

void Weighing::serve_trials(const RoundContext& round) {
  while (true) {
    int64_t more = 0;
    parts_.comm.bcast(std::span(&more, 1), 0);
    if (more == 0) return;
    ColumnStep step;
    mix_columns(step, forging_->rows(), round, nullptr, nullptr);
  }
}

// Who has sent the row at this position; kNobody: the server has made it, or keeps it.
int64_t Weighing::sender_of(int64_t position, const Known& known) const {
  if (position >= 0 && position < std::ssize(parts_.plan.entries())) {
    return parts_.plan.client_at(position);
  }
  return forges_ && position >= forging_->mean_row() ? blamed(known.roles) : Divergence::kNobody;
}

void Weighing::combine(const Known& known, const RoundContext& round) {
  const AggregatorNeeds& needs = parts_.needs;
  const std::size_t own = needs.extra_row != ExtraRow::kNone ? 1 : 0;
  const std::size_t rows = forges_ ? to_index(forging_->rows()) : layers_ * known.updates + own;
  Mix mix;
  if (parts_.server) {
    attempt(round.failure, [&] {
      mix = mix_of(*parts_.server,
                   {.gram = known.gram, .statistics = known.statistics, .norms = known.norms},
                   known.roles, round.number);
    });
  }
  if (needs.columns) {
    ColumnStep step;
    if (mix.columns && !round.failure) step = column_step(*mix.columns, known);
    return combine_columns(std::move(step), rows, known, round);
  }
  std::vector<double>& c = mix.coefficients;
  if (c.empty()) c.resize(forges_ ? to_index(forging_->mean_row()) : rows);
  if (parts_.server && !needs.gram) parts_.plan.weigh(std::span(c).first(known.updates));
  if (parts_.server && !round.failure) measure(c, known);
  if (forges_) c = forging_->spread(c);
  c.resize(rows);
  attempt(round.failure, [&] {
    if (all_finite(c)) return;
    throw Divergence("the update that an attacker sends is not finite", blamed(known.roles),
                     round.number, "robust rules leave such updates out");
  });
  if (round.failure) std::ranges::fill(c, 0.0);
  parts_.comm.bcast(std::span(c), 0);
  attempt(round.failure, [&] {
    const int64_t broken = parts_.runner.sink().combine(c, static_cast<int64_t>(rows / layers_));
    if (broken < 0) return;
    const bool has_radius = needs.rates || needs.extra_row == ExtraRow::kLastStep;
    throw Divergence("a weighted update is out of range", sender_of(broken, known), round.number,
                     has_radius ? "aggregator.radius bounds the step" : kSmallerSteps);
  });
}

// What the ranks make of the rule's mix [n, K]: a map of the rows that there are. Rank 0.
Weighing::ColumnStep Weighing::column_step(const ColumnMix& mix, const Known& known) const {
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
    const auto wide =
        forges_ ? forging_->spread(weights) : std::vector<double>(weights.begin(), weights.end());
    step.mix.map.insert(step.mix.map.end(), wide.begin(), wide.end());
  }
  return step;
}

// Lets this rank's rule of one's own begin the round. A failure is the round's. Collective.
OwnStep Weighing::own_step(const ColumnStep& step, const RoundContext& round) {
  if (parts_.own_columns == nullptr) return nullptr;
  State state;
  if (parts_.server) attempt(round.failure, [&] { parts_.server->save_rule(state); });
  bcast_state(parts_.comm, state);
  attempt(round.failure, [&] { parts_.own_columns->begin(round.number, state); });
  return [&](std::span<const double> values, std::span<double> out) {
    attempt(round.failure, [&] { parts_.own_columns->step(values, step.mix.weights, out); });
  };
}

// Brings rank 0's step to all ranks, and makes it.
ColumnDeviations Weighing::mix_columns(ColumnStep& step, int64_t rows, const RoundContext& round,
                                       const WriteColumns& write, LargestEntry* largest) {
  bcast_mix(parts_.comm, step.mix, rows);
  if (step.mix.n == 0) return {};
  bcast_list(parts_.comm, step.honest);
  step.shares.resize(to_index(step.mix.n));
  parts_.comm.bcast(std::span(step.shares), 0);
  const bool marked = std::ranges::any_of(step.shares, [](double share) { return share > 0; });
  return mix_by_columns(parts_.comm, *columns_, parts_.runner.sink().rows(), rows, step.mix,
                        {.honest = step.honest,
                         .byzantine_shares = marked ? std::span<const double>(step.shares)
                                                    : std::span<const double>()},
                        write, own_step(step, round), largest);
}

void Weighing::combine_columns(ColumnStep step, std::size_t rows, const Known& known,
                               const RoundContext& round) {
  UpdateSink& sink = parts_.runner.sink();
  bool fits = true;
  LargestEntry largest;
  const ColumnDeviations found = mix_columns(
      step, static_cast<int64_t>(rows), round,
      [&](int64_t begin, std::span<const double> values) {
        fits = sink.add_entries(begin, values) && fits;
      },
      &largest);
  sink.drop();
  has_step_ = step.mix.n > 0;
  if (has_step_ && !step.honest.empty()) {
    robustness_ = found.result(std::ssize(step.honest));
    if (parts_.own_columns) robustness_.byzantine_weight = kUnmeasured;  // only the rule knows
  }
  attempt(round.failure, [&] {
    if (fits) return;
    const int64_t sender = sender_of(largest.position, known);
    const bool attacks = std::ranges::count(known.roles.attacking_clients(), sender) > 0;
    throw Divergence(
        fmt::format("an entry of the step is out of range: {:.3g}, and the sum takes {:.3g}",
                    largest.value, UpdateSum::limit(1)),
        sender, round.number,
        attacks ? "attackers may move this rule without a bound: is aggregator.byzantine at least "
                  "their number?"
                : kSmallerSteps);
  });
}

// Rank 0.
void Weighing::measure(std::span<const double> coefficients, const Known& known) {
  const bool weighed = std::ranges::any_of(coefficients, [](double one) { return one != 0; });
  has_step_ = weighed || (!parts_.needs.rejects && parts_.server->has_weight());
  const RoundRoles& roles = known.roles;
  if (layers_ > 1 || roles.clients.empty() || !has_step_) return;
  measure_weights(coefficients, roles);
  const std::vector<int64_t> counted = roles.honest();
  if (known.gram.empty() || counted.empty() || known.updates > roles.clients.size()) return;
  std::vector<char> honest(coefficients.size());
  for (const int64_t at : counted) honest[to_index(at)] = 1;
  const GramView gram{known.gram, coefficients.size()};
  robustness_.kappa = measure_robustness(gram, coefficients, honest).kappa;
}

void Weighing::measure_weights(std::span<const double> coefficients, const RoundRoles& roles) {
  robustness_ = {kUnmeasured, 0, 0};
  double honest = 0;
  for (std::size_t i = 0; i < roles.clients.size(); ++i) {
    if (roles.byzantine[i]) {
      robustness_.byzantine_weight += coefficients[i];
    } else {
      honest += 1;
      robustness_.honest_recall += coefficients[i] > 0;
    }
  }
  robustness_.honest_recall /= honest;
}

void Weighing::note_step(int64_t begin, std::span<const float> update) {
  if (last_step_.empty()) return;
  std::ranges::copy(update, last_step_.begin() + static_cast<std::ptrdiff_t>(begin));
}

}  // namespace hanse
