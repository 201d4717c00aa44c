// Attackers that forge what their participants send.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attempt.hpp"
#include "federated/column_stepping.hpp"
#include "federated/parts/parts.hpp"
#include "federated/round_plan.hpp"
#include "federated/server.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/attack/certain_step.hpp"
#include "hanse/sums/gram.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

namespace {

// The kept rows of these positions.
std::vector<OwnedRow> rows_at(const KeptUpdates& kept, std::span<const int64_t> positions) {
  std::vector<OwnedRow> rows = kept.rows();
  std::erase_if(rows, [&](const OwnedRow& row) {
    return std::ranges::find(positions, row.position) == positions.end();
  });
  return rows;
}

// Makes the rows h and p of a round (Attackers), which stand behind those that the rule sees, and
// perhaps the last aggregate g behind these. In the place of a byzantine participant stands
// a = sum_i c_i u_i + c_h h + c_p p + c_g g.
class Forging final : public RoundPart {
 public:
  explicit Forging(const PartsOf& of)
      : comm_(of.parts.comm),
        attackers_(*of.parts.attackers),
        n_params_(of.parts.model.layout().n_params()),
        most_(of.settings.max_participants),
        server_(of.server),
        columns_(of.columns),
        last_(of.last_step),
        made_(of.needs.forging_rows) {}

  void drawn(int64_t) override { strength_ = kNobodyForges; }

  // Cost: two sums of P values over the ranks, or one, and a broadcast.
  void add_rows(KnownRound& known) override {
    honest_ = known.roles.honest();
    attacking_ = known.roles.attacking();
    forges_ = !honest_.empty() && !attacking_.empty();
    if (!forges_) return;
    const auto first = static_cast<int64_t>(known.rows);
    known.rows += to_index(made_);
    const std::vector<OwnedRow> honest = rows_at(known.kept, honest_);
    find_mean(honest);
    find_direction(honest, known.context.number);
    if (!server_) return;
    known.kept.add_row({first, h_});
    known.kept.add_row({first + 1, p_});
    if (made_ > 2) known.kept.add_row({first + 2, last_});
  }

  // Decides the forged row. Where it is tried by columns, all ranks take part in that.
  void products_known(KnownRound& known) override {
    if (!forges_) return;
    std::exception_ptr& failure = known.context.failure;
    if (server_) {
      attempt(failure, [&] { decide(known); });
      int64_t more = 0;
      if (columns_) comm_.bcast(std::span(&more, 1), 0);
    } else if (columns_) {
      serve_trials(known);
    }
    for (std::size_t i = 0; i < known.context.plan.size(); ++i) {
      const auto at = to_index(known.context.plan.entries()[i].position);
      if (!known.roles.byzantine[at]) continue;
      double& reported = known.findings.of(i, Findings::kSquaredNorm);
      reported = kElsewhere;
      if (!server_ || failure) continue;
      const double square = known.gram[at * known.seen + at];
      known.roles.finite[at] = std::isfinite(square);
      reported = std::isfinite(square) ? square : std::numeric_limits<double>::infinity();
      known.norms[at] = reported;
    }
  }

  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] { return Metrics{{"attack_strength", strength_}}; });
  }

  const char* name() const override { return "weighing/attack"; }

 private:
  static constexpr double kNobodyForges = std::numeric_limits<double>::quiet_NaN();

  void visit(StateFields& fields) override { fields.same(attackers_); }

  // h = 2^e / H sum u_i 2^-e, an exact sum; e is 0 but for values that no sum would take.
  void find_mean(std::span<const OwnedRow> honest) {
    double largest = 0;
    for (const OwnedRow& row : honest) {
      for (const float value : row.values) {
        largest = std::max(largest, std::abs(static_cast<double>(value)));
      }
    }
    largest = comm_.allreduce_one(largest, ReduceOp::kMax);
    UpdateSum sum(n_params_, most_, Reduction::kExact);
    const int e = largest < sum.limit() ? 0 : std::ilogb(largest / sum.limit()) + 1;
    for (const OwnedRow& row : honest) sum.add(row.values, std::ldexp(1, -e));
    const auto units = sum.integers(0, n_params_);
    comm_.allreduce(units, ReduceOp::kSum);
    h_.resize(to_index(n_params_));
    const double one = UpdateSum::kUnits * static_cast<double>(honest_.size());
    for (std::size_t i = 0; i < h_.size(); ++i) {
      h_[i] = static_cast<float>(std::ldexp(static_cast<double>(units[i]) / one, e));
    }
  }

  void find_direction(std::span<const OwnedRow> honest, int64_t round) {
    p_.assign(server_ ? to_index(n_params_) : 0, 0.0F);
    const ForgedDirection direction = attackers_.needs().direction;
    if (direction == ForgedDirection::kDeviation) find_deviation(honest);
    for (std::size_t i = 0; i < p_.size() && direction == ForgedDirection::kSign; ++i) {
      p_[i] = h_[i] == 0 ? 0.0F : std::copysign(1.0F, h_[i]);
    }
    if (server_ && direction == ForgedDirection::kOwn) attackers_.fill(round, 0, p_);
  }

  // s = 2^e sqrt(sum ((u_i - h) 2^-e)^2 / (H - 1)), 2^e above the largest |u_i - h| of all ranks:
  // each term is rounded once to 2^-44, so that the sum does not depend on its order, and late in
  // training nothing is lost.
  void find_deviation(std::span<const OwnedRow> honest) {
    double largest = 0;
    for (const OwnedRow& row : honest) {
      for (std::size_t i = 0; i < h_.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(row.values[i]) - h_[i]));
      }
    }
    largest = comm_.allreduce_one(largest, ReduceOp::kMax);
    int e = 0;
    std::frexp(largest, &e);
    const double down = std::ldexp(1, -e), up = std::ldexp(1, e);
    std::vector<int64_t> squares(h_.size());
    for (const OwnedRow& row : honest) {
      for (std::size_t i = 0; i < h_.size(); ++i) {
        const double away = (static_cast<double>(row.values[i]) - h_[i]) * down;
        squares[i] += std::llrint(away * away * UpdateSum::kUnits);
      }
    }
    comm_.reduce(std::span(squares), ReduceOp::kSum, 0);
    const double others = std::max<double>(1, static_cast<double>(honest_.size()) - 1);
    for (std::size_t i = 0; i < p_.size(); ++i) {
      const double square = static_cast<double>(squares[i]) / UpdateSum::kUnits / others;
      p_[i] = static_cast<float>(up * std::sqrt(square));
    }
  }

  void decide(KnownRound& known) {
    const std::vector<double> all = std::exchange(known.gram, {});
    const GramView view{all, known.rows};
    std::vector<int64_t> visible = honest_;  // (u, h, p) or (u, h, p, g)
    for (std::size_t i = known.seen; i < known.rows; ++i) {
      visible.push_back(static_cast<int64_t>(i));
    }
    std::vector<double> entries;
    for (const int64_t i : visible) {
      for (const int64_t j : visible) entries.push_back(view(to_index(i), to_index(j)));
    }
    const auto widened = [&](std::span<const double> row) {
      std::vector<double> wide(known.rows);
      for (std::size_t i = 0; i < visible.size(); ++i) wide[to_index(visible[i])] = row[i];
      return wide;
    };
    const auto honest = known.roles.at(honest_), byzantine = known.roles.at(attacking_);
    const AttackRow found = attackers_.forge({.round = known.context.number,
                                              .honest = honest,
                                              .byzantine = byzantine,
                                              .gram = {entries, visible.size()},
                                              .displacement = [&](std::span<const double> row) {
                                                KnownRound trial = known;
                                                trial.forged = widened(row);
                                                return displacement(trial, view);
                                              }});
    known.forged = widened(found.coefficients);
    known.gram = known.seen_products(all);
    strength_ = found.strength;
  }

  // |F - h|^2 when the attackers send trial.forged; `all` [R, R].
  double displacement(KnownRound& trial, const GramView& all) {
    trial.gram = trial.seen_products(all.entries);
    const std::size_t n = trial.seen;  // h's position
    for (std::size_t i = 0; i < trial.norms.size(); ++i) trial.norms[i] = trial.gram[i * n + i];
    const Mix mix = server_->trial(trial.told());
    std::optional<std::vector<double>> coefficients = mix.coefficients;
    if (columns_) {
      if (!mix.columns) return all(n, n);
      coefficients = certain_step(*mix.columns);
    }
    if (!coefficients) {
      int64_t more = 1;
      comm_.bcast(std::span(&more, 1), 0);
      ColumnStep step = ColumnStepping::step_of(*mix.columns, trial);
      step.honest = {static_cast<int64_t>(n)};
      step.shares.assign(step.shares.size(), 0);
      return columns_->make(step, trial, nullptr, nullptr).step;
    }
    std::vector<double> away = trial.spread(*coefficients);
    away[n] -= 1;
    return all.product(away, away);
  }

  void serve_trials(const KnownRound& known) {
    while (true) {
      int64_t more = 0;
      comm_.bcast(std::span(&more, 1), 0);
      if (more == 0) return;
      ColumnStep step;
      columns_->make(step, known, nullptr, nullptr);
    }
  }

  Communicator& comm_;
  Attackers& attackers_;
  int64_t n_params_, most_;
  Server* server_;               // null: not rank 0
  ColumnStepping* columns_;      // null: the rule needs none
  std::span<const float> last_;  // [P] g, on rank 0
  int64_t made_;                 // rows: 2, or 3 with g
  bool forges_ = false;          // in this round: there are attackers, and honest participants
  std::vector<int64_t> honest_, attacking_;  // positions
  std::vector<float> h_, p_;                 // [P]
  double strength_ = kNobodyForges;
};

}  // namespace

std::unique_ptr<RoundPart> make_forging(const PartsOf& of) { return std::make_unique<Forging>(of); }

void send_forging(const FederatedFacts& facts, const char* kind, RoundFootprint& footprint) {
  const double row = sizeof(int64_t) * static_cast<double>(facts.n_params);
  footprint.allreduce(kind, row);  // h
  footprint.allreduce(kind, sizeof(double));
  footprint.reduce(kind, row);  // the deviation
}

}  // namespace hanse
