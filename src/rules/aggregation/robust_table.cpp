#include "robust_table.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "hanse/base/choice.hpp"

namespace hanse {

namespace {

using Round = RobustRound;

int64_t rows_of(const GramView& gram) { return static_cast<int64_t>(gram.n); }

// Fedavg's coefficients; the mean of rows counts as its rows do together.
Coefficients mean(const Round& round, const GramView&) {
  const RobustOptions& o = round.options;
  std::vector<double> shares, draw_weights;
  for (const std::size_t i : round.kept) {
    const bool samples = o.weights == ClientWeights::kSamples;
    shares.push_back(samples ? round.report.lambda[i] : 1 / static_cast<double>(o.clients));
    draw_weights.push_back(round.report.draw_weights[i]);
  }
  const Coefficients each = estimate(shares, draw_weights, o.estimator);
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

bool takes_lower(const RobustOptions& o) { return o.variant == Variant::kReference; }

// The least n of a bound is that with which a rule is what its paper proves it to be: with fewer
// rows as many rows as are byzantine, all alike, can outvote or outscore the others. (Theorems with
// rates of their own may ask for more: those of MoNNA and centered clipping, for example.)
constexpr RobustRow kRows[] = {
    {.kind = RobustKind::kMean, .bound = {0, 1, "McMahan et al. 2017"}, .weigh = mean},
    {.kind = RobustKind::kKrum,
     .bound = {2, 3, "Blanchard et al. 2017", 1},
     .weigh = [](const Round& r,
                 const GramView& gram) { return multi_krum(gram, r.f, 1, r.options.variant); },
     .chooses = true,
     .scores = true},
    {.kind = RobustKind::kMultiKrum,
     .bound = {2, 3, "Blanchard et al. 2017", 1},
     .weigh =
         [](const Round& r, const GramView& gram) {
           const int64_t keep = r.options.keep > 0 ? r.options.keep : rows_of(gram) - r.f;
           return multi_krum(gram, r.f, keep, r.options.variant);
         },
     .chooses = true,
     .scores = true},
    {.kind = RobustKind::kMda,
     .bound = {2, 1, "El Mhamdi et al. 2018"},
     .weigh = [](const Round& r, const GramView& gram) { return smallest_diameter(gram, r.f); },
     .chooses = true,
     .by_sets = true},
    {.kind = RobustKind::kMonna,
     .bound = {2, 1, "Farhadkhani et al. 2023"},
     .weigh = [](const Round& r,
                 const GramView& gram) { return nearest_to(gram, r.f, r.pivot()); }},
    {.kind = RobustKind::kGeometricMedian,
     .bound = {2, 1, "Pillutla et al. 2022"},
     .weigh =
         [](const Round& r, const GramView& gram) {
           return geometric_median(gram, r.options.iterations, r.options.smoothing);
         }},
    {.kind = RobustKind::kCenteredClipping,
     .bound = {2, 1, "Karimireddy et al. 2021"},
     .weigh =
         [](const Round& r, const GramView& gram) {
           return centered_clipping(gram, r.n(), r.options.radius, r.options.iterations);
         },
     .extra_row = ExtraRow::kLastStep},
    {.kind = RobustKind::kFlTrust,
     .bound = {0, 1, "Cao et al. 2021"},
     .weigh = [](const Round&, const GramView& gram) { return trusted_mean(gram); },
     .extra_row = ExtraRow::kServer},
    {.kind = RobustKind::kSmea,
     .bound = {2, 1, "Allouah et al. 2023"},
     .weigh = [](const Round& r, const GramView& gram) { return least_covariance(gram, r.f); },
     .chooses = true,
     .by_sets = true,
     .matrices = 5},
    {.kind = RobustKind::kCaf,
     .bound = {2, 1, "Allouah et al. 2025"},
     .weigh = [](const Round& r,
                 const GramView& gram) { return covariance_filter(gram, r.f, r.options.variant); },
     .matrices = 5},
    {.kind = RobustKind::kMedian,
     .bound = {2, 1, "Yin et al. 2018"},
     .column = [](const RobustOptions& o, int64_t, int64_t) -> ColumnRule {
       return {ColumnKind::kMedian, 0, takes_lower(o)};
     },
     .matrices = 4},
    {.kind = RobustKind::kTrimmedMean,
     .bound = {2, 1, "Yin et al. 2018"},
     .column = [](const RobustOptions&, int64_t, int64_t f) -> ColumnRule {
       return {ColumnKind::kTrimmedMean, f, false};
     },
     .matrices = 4},
    {.kind = RobustKind::kMeamed,
     .bound = {2, 1, "Xie et al. 2018"},
     .column = [](const RobustOptions& o, int64_t n, int64_t f) -> ColumnRule {
       return {ColumnKind::kNearMedian, n - f, takes_lower(o)};
     },
     .matrices = 4},
    {.kind = RobustKind::kBulyan,
     .bound = {4, 3, "El Mhamdi et al. 2018"},
     .column = [](const RobustOptions& o, int64_t n, int64_t f) -> ColumnRule {
       return {ColumnKind::kNearMedian, n - 4 * f, takes_lower(o)};
     },
     .choose = [](const Round& r,
                  const GramView& gram) { return bulyan_selection(gram, r.f, r.options.variant); },
     .matrices = 4},
};
static_assert(
    [] {
      for (std::size_t i = 0; i < std::size(kRows); ++i) {
        const RobustRow& row = kRows[i];
        const bool weighs = row.weigh != nullptr, has_columns = row.column != nullptr;
        if (row.kind != static_cast<RobustKind>(i) || weighs == has_columns) return false;
      }
      return std::size(kRows) == choices_of(RobustKind{}).size();
    }(),
    "every robust rule has a row, which weighs or is by columns");

constexpr RobustBound kArcBound{2, 1, "Allouah et al. 2024"};
constexpr RobustBound kNnmBound{2, 1, "Allouah et al. 2023"};

std::string below(std::string_view rule, const RobustBound& bound, Variant variant, int64_t n,
                  int64_t f) {
  const int64_t least =
      bound.times * f + (variant == Variant::kReference ? bound.more_in_reference : bound.more);
  if (n >= least) return "";
  return fmt::format("{} with f = {} needs at least {} rows ({}), not {}", rule, f, least,
                     bound.paper, n);
}

// The rule alone, on n rows.
std::string shortfall_of_rule(const RobustOptions& o, int64_t n, int64_t f) {
  const RobustRow& row = robust_row(o.kind);
  if (n < 1) return "no participant has sent a finite update";
  std::string found = below(name_of(o.kind), row.bound, o.variant, n, f);
  if (!found.empty()) return found;
  if (o.kind == RobustKind::kMultiKrum && o.keep > n) {
    return fmt::format("aggregator.keep = {} is more than the {} rows", o.keep, n);
  }
  if (row.by_sets && combinations(n, f, kMostSets + 1) > kMostSets) {
    return fmt::format("{} rows have more than {} sets without {} of them", n, kMostSets, f);
  }
  return "";
}

}  // namespace

const RobustRow& robust_row(RobustKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

std::size_t RobustRound::pivot() const {
  const auto found =
      std::ranges::find_if(kept, [&](std::size_t i) { return report.clients[i] == options.pivot; });
  return static_cast<std::size_t>(found - kept.begin());
}

std::string shortfall_of(const RobustOptions& o, int64_t k, int64_t f) {
  int64_t n = k;
  for (const PreRule& rule : o.before.list) {
    std::string found;
    switch (rule.kind) {
      case PreRuleKind::kClip: break;
      case PreRuleKind::kArc: found = below("arc", kArcBound, o.variant, n, f); break;
      case PreRuleKind::kNnm: found = below("nnm", kNnmBound, o.variant, n, f); break;
      case PreRuleKind::kBucketing:
        if (o.kind == RobustKind::kMonna) return "monna trusts a row, which bucketing averages";
        n = (n + static_cast<int64_t>(rule.number) - 1) / static_cast<int64_t>(rule.number);
    }
    if (!found.empty()) return found;
  }
  return shortfall_of_rule(o, n, f);
}

}  // namespace hanse
