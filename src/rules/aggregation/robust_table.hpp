// The robust rules, a row each: how many rows they need, what they ask for, and how they weigh.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/robust.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse {

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

// A rule holds against f byzantine rows of n where n >= times f + more.
struct RobustBound {
  int64_t times, more;
  std::string_view paper;
  int64_t more_in_reference = more;  // aggregator.variant = reference
};

struct RobustRow {
  RobustKind kind;
  RobustBound bound;
  // The coefficients of the mapped rows from their products, which for rules that choose rows are
  // MappedRows::even(): behind nnm many rows are the same. Null: the rule is by columns.
  Coefficients (*weigh)(const RobustRound& round, const GramView& gram) = nullptr;
  // What is done with a column of n rows.
  ColumnRule (*column)(const RobustOptions& options, int64_t n, int64_t f) = nullptr;
  // The rows of which it is done; null: all.
  std::vector<std::size_t> (*choose)(const RobustRound& round, const GramView& gram) = nullptr;
  bool chooses = false;  // rows whose scores, or sets of rows whose widths, are least
  bool scores = false;   // by Krum's scores
  bool by_sets = false;  // looks at kMostSets sets at most
  ExtraRow extra_row = ExtraRow::kNone;
  double matrices = 0;  // [n, n] that it makes beside those of the maps before it
};

// All of them, in the order of RobustKind.
const RobustRow& robust_row(RobustKind kind);

}  // namespace hanse
