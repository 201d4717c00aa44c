// Robust rules as a job chooses them: how many participants may be byzantine, what comes before the
// rule, and the rule.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "hanse/rules/aggregation/options.hpp"
#include "hanse/rules/aggregation/pre_rules.hpp"
#include "hanse/rules/variant.hpp"

namespace hanse {

class Aggregator;

// The functions of robust.hpp and column_rules.hpp; kMean is fedavg, for what comes before it: with
// clip(c) that is norm bounding (Sun et al. 2019).
enum class RobustKind {
  kMean,
  kKrum,
  kMultiKrum,
  kMda,
  kMonna,
  kGeometricMedian,
  kCenteredClipping,
  kFlTrust,
  kSmea,
  kCaf,
  kMedian,
  kTrimmedMean,
  kMeamed,
  kBulyan
};
constexpr auto choices_of(RobustKind) {
  return std::array{"mean",
                    "krum",
                    "multi-krum",
                    "mda",
                    "monna",
                    "geometric-median",
                    "centered-clipping",
                    "fltrust",
                    "smea",
                    "caf",
                    "median",
                    "trimmed-mean",
                    "meamed",
                    "bulyan"};
}

// aggregator.byzantine: "auto", a whole number of a round's participants, or a share below 0.5.
struct ByzantineCount {
  std::optional<double> number;  // none: auto

  // Throws InvalidArgument.
  static ByzantineCount parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
  // f of k participants; a share of them is rounded up. auto: `attack_share`, that of the clients
  // that attack.
  int64_t of(int64_t k, double attack_share) const;
};

struct RobustOptions {
  RobustKind kind = RobustKind::kKrum;
  Variant variant = Variant::kPaper;
  ByzantineCount byzantine;
  double attack_share = 0;  // of the clients, for byzantine = auto
  int64_t keep = 0;         // multi-krum; 0: n - f
  int64_t iterations = 3;   // geometric-median, centered-clipping
  double smoothing = 0.1;   // geometric-median
  double radius = 100;      // centered-clipping
  int64_t pivot = 0;        // monna: a client
  PreRules before;
  Shortfall shortfall = Shortfall::kError;
  uint64_t seed = 1;  // of the permutations of bucketing
  // mean
  ClientWeights weights = ClientWeights::kUniform;
  Estimator estimator = Estimator::kNormalized;
  int64_t clients = 1;
};

// Sets of n - f rows that mda and smea may look at.
inline constexpr int64_t kMostSets = 1000000;

// What keeps the rule from weighing k participants of whom f are byzantine, as a sentence; empty:
// nothing does. The rule, and each step before it, needs as many rows as its paper says:
//   krum, multi-krum        2f + 3; Variant::kReference: 2f + 1
//   bulyan                  4f + 3
//   fltrust, mean           1
//   all others, arc, nnm    2f + 1
// mda and smea look at kMostSets sets at most.
std::string shortfall_of(const RobustOptions& options, int64_t k, int64_t f);

// The rule as an aggregator. Participants whose update is not finite are left out first
// (Direction.dropped), and f is less by as many; then aggregator.before maps the rows; then the
// rule. Every participant counts once: neither the clients' sizes nor the draws' weights enter, but
// for kMean. A round with too few participants is an error or no step, by `shortfall`. Rules by
// columns give Mix.columns, the others coefficients; centered clipping and FLTrust ask for an extra
// row, and have a coefficient for it. Columns of rounds.csv: rejected; of Krum's rules
// krum_margin, the lead of the best score; and of those that clip radius, to what length.
// Cost a round: that of the rule, and O(K^3) for each map before it.
std::unique_ptr<Aggregator> make_robust(const RobustOptions& options);

}  // namespace hanse
