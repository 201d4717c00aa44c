#include "hanse/rules/aggregation/robust_rule.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/text.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/robust.hpp"
#include "places.hpp"

namespace hanse {

namespace {

using Places = std::vector<std::size_t>;

bool takes_columns(RobustKind kind) {
  return kind == RobustKind::kMedian || kind == RobustKind::kTrimmedMean ||
         kind == RobustKind::kMeamed || kind == RobustKind::kBulyan;
}

bool scores_rows(RobustKind kind) {
  return kind == RobustKind::kKrum || kind == RobustKind::kMultiKrum;
}

// Does it choose rows whose scores, or sets of rows whose widths, are least?
bool chooses_rows(RobustKind kind) {
  return scores_rows(kind) || kind == RobustKind::kMda || kind == RobustKind::kSmea;
}

bool clips_rows(const RobustOptions& o) {
  return o.kind == RobustKind::kCenteredClipping || o.before.has(PreRuleKind::kClip) ||
         o.before.has(PreRuleKind::kArc);
}

ExtraRow extra_row_of(RobustKind kind) {
  if (kind == RobustKind::kCenteredClipping) return ExtraRow::kLastStep;
  return kind == RobustKind::kFlTrust ? ExtraRow::kServer : ExtraRow::kNone;
}

// [n, n] that the rule makes of n rows: maps and what they map, those of steps by columns, and
// decompositions.
double matrices_of(const RobustOptions& o) {
  double count = takes_columns(o.kind) ? 4 : 0;
  if (o.kind == RobustKind::kCaf || o.kind == RobustKind::kSmea) count += 5;
  if (!o.before.list.empty()) count += extra_row_of(o.kind) == ExtraRow::kNone ? 4 : 6;
  return count;
}

class RobustRule final : public Aggregator {
 public:
  explicit RobustRule(const RobustOptions& options) : o_(options) {}

  AggregatorNeeds needs() const override {
    const bool columns = takes_columns(o_.kind);
    const bool gram = !columns || o_.kind == RobustKind::kBulyan || !o_.before.list.empty();
    return {
        .sizes = o_.kind == RobustKind::kMean && o_.weights == ClientWeights::kSamples,
        .norms = !gram,
        .gram = gram,
        .late = !gram,
        .extra_row = extra_row_of(o_.kind),
        .columns = columns,
        .rejects = true,
        .matrices = matrices_of(o_),
        .cubes = o_.before.has(PreRuleKind::kNnm) ? 1.5 : 0,
    };
  }

  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] {
      Metrics metrics{{"rejected", rejected_}};
      if (scores_rows(o_.kind)) metrics.emplace_back("krum_margin", margin_);
      if (clips_rows(o_)) metrics.emplace_back("radius", radius_);
      return metrics;
    });
  }

  Mix mix(const RoundReport& report) override;

 private:
  // One round: the finite rows, mapped.
  struct Round {
    const RoundReport& report;
    Places kept;  // of the report's rows; then, if there is one, the extra row
    std::size_t extra = 0;
    int64_t f = 0;
    std::vector<double> entries;  // products of those that are kept; empty: all are
    MappedRows rows;
    std::vector<int64_t> permutation;  // [K] of bucketing
    std::size_t n() const { return rows.gram().n - extra; }
  };

  Round read(const RoundReport& report) const;
  Coefficients weigh(const Round& round);
  Coefficients mean(const Round& round) const;
  ColumnRule column_rule(int64_t n, int64_t f) const;
  ColumnMix columns(const Round& round) const;
  std::string shortfall(const Round& round) const;
  std::size_t pivot(const Round& round) const;

  RobustOptions o_;
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

RobustRule::Round RobustRule::read(const RoundReport& report) const {
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
  Round round{.report = report,
              .kept = kept,
              .extra = n - k,
              .f = std::max<int64_t>(0, f - rejected),
              .entries = std::move(entries),
              .rows = MappedRows(gram, n - k),
              .permutation = {report.permutation.begin(), report.permutation.end()}};
  if (o_.before.has(PreRuleKind::kBucketing) && round.permutation.empty()) {
    round.permutation = bucket_permutation(o_.seed, report.round, k);
  }
  if (!o_.before.list.empty() && shortfall(round).empty()) {
    round.rows.apply(o_.before, round.f, kept_permutation(round.permutation, kept));
  }
  return round;
}

std::string RobustRule::shortfall(const Round& round) const {
  const auto finite = static_cast<int64_t>(round.kept.size() - round.extra);
  const std::string found = shortfall_of(o_, finite, round.f);
  if (!found.empty() || o_.kind != RobustKind::kMonna) return found;
  if (pivot(round) < round.kept.size()) return "";
  return fmt::format("client {}, aggregator.pivot, has not sent a finite update", o_.pivot);
}

// The place of the trusted participant among those that are kept; behind them: it is not there.
std::size_t RobustRule::pivot(const Round& round) const {
  const auto found = std::ranges::find_if(
      round.kept, [&](std::size_t i) { return round.report.clients[i] == o_.pivot; });
  return static_cast<std::size_t>(found - round.kept.begin());
}

// Fedavg's coefficients; the mean of rows counts as its rows do together.
Coefficients RobustRule::mean(const Round& round) const {
  std::vector<double> shares, draw_weights;
  for (const std::size_t i : round.kept) {
    const bool samples = o_.weights == ClientWeights::kSamples;
    shares.push_back(samples ? round.report.lambda[i] : 1 / static_cast<double>(o_.clients));
    draw_weights.push_back(round.report.draw_weights[i]);
  }
  const Coefficients each = estimate(shares, draw_weights, o_.estimator);
  if (round.n() == each.size()) return each;
  const std::vector<double> map = round.rows.matrix();
  Coefficients all(round.n());
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t i = 0; i < each.size(); ++i) {
      if (map[a * each.size() + i] != 0) all[a] += each[i];
    }
  }
  return all;
}

Coefficients RobustRule::weigh(const Round& round) {
  const GramView gram = round.rows.gram();
  const auto n = static_cast<int64_t>(gram.n);
  const int64_t f = round.f;
  // Behind nnm many rows are the same.
  std::vector<double> room;
  const GramView even = chooses_rows(o_.kind) ? round.rows.even(room) : gram;
  switch (o_.kind) {
    case RobustKind::kKrum:
    case RobustKind::kMultiKrum: {
      margin_ = krum_margin(krum_scores(even, f, o_.variant));
      const int64_t some = o_.keep > 0 ? o_.keep : n - f;
      return multi_krum(even, f, o_.kind == RobustKind::kKrum ? 1 : some, o_.variant);
    }
    case RobustKind::kMda: return smallest_diameter(even, f);
    case RobustKind::kSmea: return least_covariance(even, f);
    case RobustKind::kMonna: return nearest_to(gram, f, pivot(round));
    case RobustKind::kGeometricMedian: return geometric_median(gram, o_.iterations, o_.smoothing);
    case RobustKind::kCenteredClipping:
      return centered_clipping(gram, round.n(), o_.radius, o_.iterations);
    case RobustKind::kFlTrust: return trusted_mean(gram);
    case RobustKind::kCaf: return covariance_filter(gram, f, o_.variant);
    case RobustKind::kMean: return mean(round);
    case RobustKind::kMedian:
    case RobustKind::kTrimmedMean:
    case RobustKind::kMeamed:
    case RobustKind::kBulyan: break;
  }
  throw std::logic_error("this rule has no coefficients");
}

// What the rule does with a column of n mapped rows.
ColumnRule RobustRule::column_rule(int64_t n, int64_t f) const {
  const bool lower = o_.variant == Variant::kReference;
  switch (o_.kind) {
    case RobustKind::kMedian: return {ColumnKind::kMedian, 0, lower};
    case RobustKind::kTrimmedMean: return {ColumnKind::kTrimmedMean, f, false};
    case RobustKind::kMeamed: return {ColumnKind::kNearMedian, n - f, lower};
    case RobustKind::kBulyan: return {ColumnKind::kNearMedian, n - 4 * f, lower};
    case RobustKind::kMean:
    case RobustKind::kKrum:
    case RobustKind::kMultiKrum:
    case RobustKind::kMda:
    case RobustKind::kMonna:
    case RobustKind::kGeometricMedian:
    case RobustKind::kCenteredClipping:
    case RobustKind::kFlTrust:
    case RobustKind::kSmea:
    case RobustKind::kCaf: break;
  }
  throw std::logic_error("this rule has no columns");
}

ColumnMix RobustRule::columns(const Round& round) const {
  Places chosen = all_places(round.n());
  if (o_.kind == RobustKind::kBulyan) {
    std::vector<double> room;
    chosen = bulyan_selection(round.rows.even(room), round.f, o_.variant);
  }
  const std::size_t k = round.report.clients.size();
  const std::vector<double> map = round.rows.matrix();
  ColumnMix mix{.rule = column_rule(static_cast<int64_t>(round.n()), round.f),
                .map = std::vector<double>(chosen.size() * k),
                .n = std::ssize(chosen)};
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    for (std::size_t i = 0; i < round.kept.size(); ++i) {
      mix.map[a * k + round.kept[i]] = map[chosen[a] * round.kept.size() + i];
    }
  }
  return mix;
}

Mix RobustRule::mix(const RoundReport& report) {
  const Round round = read(report);
  const std::size_t k = report.clients.size();
  rejected_ = static_cast<double>(k + round.extra - round.kept.size());
  margin_ = std::numeric_limits<double>::quiet_NaN();
  radius_ = o_.kind == RobustKind::kCenteredClipping ? o_.radius : round.rows.radius();
  Mix mix{.coefficients = std::vector<double>(k + round.extra)};
  if (o_.before.has(PreRuleKind::kBucketing)) mix.permutation = round.permutation;
  mix.direction.dropped = static_cast<int64_t>(rejected_);
  if (const std::string found = shortfall(round); !found.empty()) {
    if (o_.shortfall == Shortfall::kSkip) return mix;
    throw InvalidArgument(found, "aggregator.byzantine",
                          "draw more participants, or use aggregator.shortfall = skip");
  }
  if (o_.kind == RobustKind::kFlTrust && round.extra == 0) {
    throw InvalidArgument("fltrust needs the server's own update", "aggregator.kind");
  }
  if (takes_columns(o_.kind)) {
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

ByzantineCount ByzantineCount::parse(std::string_view text) {
  if (text == "auto") return {};
  const auto number = number_in(text);
  if (number && std::isfinite(*number) && *number >= 0 &&
      (*number < 0.5 || *number == std::floor(*number))) {
    return {number};
  }
  throw InvalidArgument(fmt::format("'{}' is no number of participants", text), "",
                        "auto, a whole number, or a share below 0.5");
}

std::string ByzantineCount::text() const { return number ? fmt::format("{}", *number) : "auto"; }

int64_t ByzantineCount::of(int64_t k, double attack_share) const {
  const double value = number.value_or(attack_share);
  if (value >= 1) return static_cast<int64_t>(value);
  // A share that is a whole number of participants but for rounding is that number.
  const double count = value * static_cast<double>(k);
  return static_cast<int64_t>(std::ceil(count * (1 - 1e-12)));
}

std::unique_ptr<Aggregator> make_robust(const RobustOptions& options) {
  return std::make_unique<RobustRule>(options);
}

}  // namespace hanse
