// Steps by columns: rules that give no coefficients, but make each column's step of all its values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "federated/known_round.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/protocol/footprint.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"
#include "hanse/sums/column_exchange.hpp"

namespace hanse {

// A step by columns on its way to all ranks.
struct ColumnStep {
  ColumnMix mix;
  std::vector<int64_t> honest;  // positions of the rows by which it is measured
  std::vector<double> shares;   // [n] of byzantine participants in the mapped rows
};

// An object a rank.
class ColumnStepping {
 public:
  // `rule` null: not rank 0. `own` null: the rule is none of the user's own.
  ColumnStepping(Communicator& comm, const ParameterLayout& layout, const Aggregator* rule,
                 ColumnFunction* own)
      : comm_(comm), exchange_(comm, row_parts(layout, false)), rule_(rule), own_(own) {}

  // What the ranks make of the rule's mix [n, K]: a map of the rows that there are. Rank 0.
  static ColumnStep step_of(const ColumnMix& mix, const KnownRound& known);

  // Brings rank 0's step to all ranks, and makes it: each rank `write`s the columns that it has.
  // A failure is the round's. Collective.
  ColumnDeviations make(ColumnStep& step, const KnownRound& known, const WriteColumns& write,
                        LargestEntry* largest);

  // Makes the step, adds it to the sum, and forgets the updates; a step out of range is the round's
  // failure. Returns the deviations from honest rows, on rank 0 where there are any. `mix` null:
  // there is no step. Collective.
  std::optional<ColumnDeviations> add(const ColumnMix* mix, const KnownRound& known);

 private:
  OwnStep own_step(const ColumnStep& step, const RoundContext& round);

  Communicator& comm_;
  RowExchange exchange_;
  const Aggregator* rule_;
  ColumnFunction* own_;
};

// Counts what a step by columns of `updates` rows sends.
void send_columns(const FederatedFacts& facts, double updates, int64_t ranks,
                  RoundFootprint& footprint);

}  // namespace hanse
