// What a robust rule makes of a round: its finite rows, what comes before the rule, and the rule.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "aggregation/places.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"
#include "krum.hpp"

namespace hanse {

namespace {

using Places = std::vector<std::size_t>;

class RobustAggregator final : public Aggregator {
 public:
  explicit RobustAggregator(const RobustOptions& options) : o_(options) {}

  AggregatorNeeds needs() const override {
    const bool columns = rule_.column != nullptr;
    const bool gram = !columns || rule_.choose != nullptr || !o_.before.list.empty();
    // Maps and what they map, those of steps by columns, and decompositions.
    double matrices = rule_.matrices;
    if (!o_.before.list.empty()) matrices += rule_.extra_row == ExtraRow::kNone ? 4 : 6;
    return {
        .sizes = rule_.weighted && o_.weights == ClientWeights::kSamples,
        .norms = !gram,
        .gram = gram,
        .late = !gram,
        .extra_row = rule_.extra_row,
        .columns = columns,
        .rejects = true,
        .matrices = matrices,
        .cubes = o_.before.has(PreRuleKind::kNnm) ? 1.5 : 0,
    };
  }

  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] {
      Metrics metrics{{"rejected", rejected_}};
      if (rule_.scores) metrics.emplace_back("krum_margin", margin_);
      if (clips()) metrics.emplace_back("radius", radius_);
      return metrics;
    });
  }

  Mix mix(const RoundReport& report) override;

 private:
  bool clips() const {
    return rule_.clips || o_.before.has(PreRuleKind::kClip) || o_.before.has(PreRuleKind::kArc);
  }
  RobustRound read(const RoundReport& report) const;
  Coefficients weigh(const RobustRound& round);
  ColumnMix columns(const RobustRound& round) const;
  std::optional<InvalidArgument> shortfall(const RobustRound& round) const;

  RobustOptions o_;
  const RobustRule& rule_ = *find_robust_rule(o_.kind);
  double rejected_ = 0;
  double margin_ = std::numeric_limits<double>::quiet_NaN();
  double radius_ = std::numeric_limits<double>::quiet_NaN();
};

// The Gram matrix of the rows that are kept where some are left out; without one, rows that are all
// alike.
std::vector<double> entries_of(const RoundReport& report, const Places& kept, std::size_t n) {
  std::vector<double> entries;
  if (!report.gram.empty() && kept.size() == n) return entries;
  entries.reserve(kept.size() * kept.size());
  for (const std::size_t i : kept) {
    for (const std::size_t j : kept) {
      entries.push_back(report.gram.empty() ? 0 : report.gram[i * n + j]);
    }
  }
  return entries;
}

// The permutation [K] of the rows that are kept.
std::vector<int64_t> kept_permutation(const std::vector<int64_t>& all, const Places& kept) {
  const std::size_t k = all.size();
  std::vector<int64_t> place(k, -1);  // of a row among those that are kept
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] < k) place[kept[i]] = static_cast<int64_t>(i);
  }
  std::vector<int64_t> permutation;
  for (const int64_t row : all) {
    if (place[static_cast<std::size_t>(row)] >= 0) {
      permutation.push_back(place[static_cast<std::size_t>(row)]);
    }
  }
  return permutation;
}

RobustRound RobustAggregator::read(const RoundReport& report) const {
  const std::size_t k = report.clients.size();
  std::size_t n = k;  // of the matrix
  if (!report.gram.empty()) n = static_cast<std::size_t>(std::sqrt(report.gram.size()) + 0.5);
  Places kept;
  for (std::size_t i = 0; i < k; ++i) {
    const double square = report.gram.empty() ? report.norms[i] : report.gram[i * n + i];
    if (std::isfinite(square)) kept.push_back(i);
  }
  const auto rejected = static_cast<int64_t>(k - kept.size());
  for (std::size_t i = k; i < n; ++i) kept.push_back(i);
  std::vector<double> entries = entries_of(report, kept, n);
  const GramView gram{entries.empty() ? report.gram : std::span<const double>(entries),
                      kept.size()};
  const int64_t f = o_.byzantine.of(static_cast<int64_t>(k), o_.attack_share);
  RobustRound round{.report = report,
                    .options = o_,
                    .kept = kept,
                    .extra = n - k,
                    .f = std::max<int64_t>(0, f - rejected),
                    .entries = std::move(entries),
                    .rows = MappedRows(gram, n - k),
                    .permutation = {report.permutation.begin(), report.permutation.end()}};
  if (o_.before.has(PreRuleKind::kBucketing) && round.permutation.empty()) {
    round.permutation = bucket_permutation(o_.seed, report.round, k);
  }
  if (!o_.before.list.empty() && !shortfall(round)) {
    round.rows.apply(o_.before, round.f, kept_permutation(round.permutation, kept));
  }
  return round;
}

std::optional<InvalidArgument> RobustAggregator::shortfall(const RobustRound& round) const {
  const auto finite = static_cast<int64_t>(round.kept.size() - round.extra);
  auto found = shortfall_of(o_, finite, round.f);
  if (found || !rule_.trusts || round.pivot() < round.kept.size()) return found;
  return InvalidArgument(
      fmt::format("client {}, which {} trusts, has not sent a finite update", o_.pivot, rule_.name),
      "aggregator.pivot",
      "a client that takes part in every round, or aggregator.shortfall = skip");
}

Coefficients RobustAggregator::weigh(const RobustRound& round) {
  std::vector<double> room;
  const GramView gram = rule_.chooses ? round.rows.even(room) : round.rows.gram();
  if (rule_.scores) margin_ = robust::krum_margin(robust::krum_scores(gram, round.f, o_.variant));
  return rule_.weigh(round, gram);
}

ColumnMix RobustAggregator::columns(const RobustRound& round) const {
  Places chosen = all_places(round.n());
  std::vector<double> room;
  if (rule_.choose) chosen = rule_.choose(round, round.rows.even(room));
  const std::size_t k = round.report.clients.size();
  const std::vector<double> map = round.rows.matrix();
  ColumnMix mix{.rule = rule_.column(o_, static_cast<int64_t>(round.n()), round.f),
                .map = std::vector<double>(chosen.size() * k),
                .n = std::ssize(chosen)};
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    for (std::size_t i = 0; i < round.kept.size(); ++i) {
      mix.map[a * k + round.kept[i]] = map[chosen[a] * round.kept.size() + i];
    }
  }
  return mix;
}

Mix RobustAggregator::mix(const RoundReport& report) {
  const RobustRound round = read(report);
  const std::size_t k = report.clients.size();
  rejected_ = static_cast<double>(k + round.extra - round.kept.size());
  margin_ = std::numeric_limits<double>::quiet_NaN();
  radius_ = rule_.clips ? o_.radius : round.rows.radius();
  Mix mix{.coefficients = std::vector<double>(k + round.extra)};
  if (o_.before.has(PreRuleKind::kBucketing)) mix.permutation = round.permutation;
  mix.direction.dropped = static_cast<int64_t>(rejected_);
  if (const auto found = shortfall(round)) {
    if (o_.shortfall == Shortfall::kSkip) return mix;
    throw *found;
  }
  if (rule_.extra_row == ExtraRow::kServer && round.extra == 0) {
    throw InvalidArgument(rule_.name + " needs the server's own update", "aggregator.kind");
  }
  if (rule_.column) {
    mix.coefficients.clear();
    mix.columns = columns(round);
    return mix;
  }
  const Coefficients coefficients = round.rows.pull_back(weigh(round));
  for (std::size_t i = 0; i < round.kept.size(); ++i) {
    mix.coefficients[round.kept[i]] = coefficients[i];
  }
  const GramView all{report.gram, k + round.extra};
  mix.direction.squared_norm = std::max(0.0, all.product(mix.coefficients, mix.coefficients));
  return mix;
}

}  // namespace

std::unique_ptr<Aggregator> make_robust(const RobustOptions& options) {
  return std::make_unique<RobustAggregator>(options);
}

}  // namespace hanse
