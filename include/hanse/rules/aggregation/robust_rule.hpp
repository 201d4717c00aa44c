// Robust rules: means that hold when some participants send anything they like. A file of
// src/rules/aggregation/robust is one of them, with its row.
//
// Throughout, n is the number of rows, f how many of them may be byzantine; equal scores and equal
// distances are decided for the smaller place in the draw. All rules are pure, and the same inner
// products give the same bits. A mean of m rows gives each of them the double that fedavg gives
// each of m clients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/base/kind.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/aggregator_options.hpp"
#include "hanse/rules/aggregation/gram_view.hpp"
#include "hanse/rules/aggregation/pre_rules.hpp"

namespace hanse {

using Coefficients = std::vector<double>;  // [n], in the order of the rows

// A job's options, and what a rule knows of the clients. kind = fedavg is the mean of what
// aggregator.before makes: with clip(c) that is norm bounding (Sun et al. 2019).
struct RobustOptions : AggregatorOptions {
  double attack_share = 0;  // of the clients, for byzantine = auto
  uint64_t seed = 1;        // of the permutations of bucketing
  int64_t clients = 1;
};

// One round: the finite rows, mapped by what comes before the rule.
struct RobustRound {
  const RoundReport& report;
  const RobustOptions& options;
  std::vector<std::size_t> kept;  // of the report's rows; then, if there is one, the extra row
  std::size_t extra = 0;
  int64_t f = 0;
  std::vector<double> entries;  // products of those that are kept; empty: all are
  MappedRows rows;
  std::vector<int64_t> permutation;  // [K] of bucketing

  std::size_t n() const { return rows.gram().n - extra; }
  // The place of the trusted participant among those that are kept; behind them: it is not there.
  std::size_t pivot() const;
};

// A rule holds against f byzantine rows of n where n >= times f + more. That is the least n with
// which it is what its paper proves it to be: with fewer rows as many rows as are byzantine, all
// alike, can outvote or outscore the others. (Theorems with rates of their own may ask for more:
// those of MoNNA and centered clipping, for example.)
struct RobustBound {
  int64_t times, more;
  std::string_view paper;
  int64_t more_in_reference = more;  // aggregator.variant = reference
};

struct RobustRule {
  std::string name;                   // a value of aggregator.kind
  std::string summary;                // its line in `hanse list`
  Keys<AggregatorOptions> keys = {};  // its own, beside robust_keys()
  RobustBound bound = {};
  // The coefficients of the mapped rows from their products, which for rules that choose rows are
  // MappedRows::even(): behind nnm many rows are the same. Null: the rule is by columns.
  Coefficients (*weigh)(const RobustRound& round, const GramView& gram) = nullptr;
  // What is done with a column of n rows.
  ColumnRule (*column)(const RobustOptions& options, int64_t n, int64_t f) = nullptr;
  // The rows of which it is done; null: all.
  std::vector<std::size_t> (*choose)(const RobustRound& round, const GramView& gram) = nullptr;
  // What else keeps the rule from weighing n rows; may be null.
  std::optional<InvalidArgument> (*lacks)(const RobustOptions& options, int64_t n,
                                          int64_t f) = nullptr;
  bool chooses = false;   // rows whose scores, or sets of rows whose widths, are least
  bool scores = false;    // by Krum's scores
  bool clips = false;     // differences longer than aggregator.radius
  bool trusts = false;    // one participant, aggregator.pivot, whose row no bucket may take in
  bool weighted = false;  // clients count by aggregator.weights
  ExtraRow extra_row = ExtraRow::kNone;
  double matrices = 0;  // [n, n] that it makes beside those of the maps before it
};

// All that a job may choose but fedavg.
std::span<const RobustRule> robust_rules();
// One of them, or the mean of "fedavg"; null: there is none of this name.
const RobustRule* find_robust_rule(std::string_view name);

// aggregator.byzantine, .before and .shortfall, which all of them and fedavg read.
Keys<AggregatorOptions> robust_keys();

// What keeps the rule from weighing k participants of whom f are byzantine; none: nothing does. The
// rule, and each step before it, needs as many rows as its paper says: arc and nnm 2f + 1.
// REQUIRES: find_robust_rule(options.kind).
std::optional<InvalidArgument> shortfall_of(const RobustOptions& options, int64_t k, int64_t f);

// The rule as an aggregator. Participants whose update is not finite are left out first
// (Direction.dropped), and f is less by as many; then aggregator.before maps the rows; then the
// rule. Every participant counts once: neither the clients' sizes nor the draws' weights enter, but
// for fedavg. A round with too few participants is an error or no step, by `shortfall`. Rules by
// columns give Mix.columns, the others coefficients; centered clipping and FLTrust ask for an extra
// row, and have a coefficient for it. Columns of rounds.csv: rejected; of Krum's rules
// krum_margin, the lead of the best score; and of those that clip radius, to what length.
// REQUIRES: find_robust_rule(options.kind). Cost a round: that of the rule, and O(K^3) for each map
// before it.
std::unique_ptr<Aggregator> make_robust(const RobustOptions& options);

}  // namespace hanse
