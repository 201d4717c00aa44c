// Steps by columns of rows that lie on different ranks, without any rank seeing another's whole
// row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/base/row_part.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/rules/aggregation/column_rules.hpp"
#include "hanse/rules/aggregation/robustness.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

// What is measured of a step by columns, beside making it.
struct ColumnsAsked {
  std::span<const int64_t> honest = {};           // positions of rows; none: nothing is measured
  std::span<const double> byzantine_shares = {};  // [n] of the mapped rows; none: 0 each
};

// The largest entry of a step that leaves the lattice of its columns.
struct LargestEntry {
  double value = 0;
  int64_t position = -1;  // of the row that adds most to it; -1: there is none
};

// Makes the step of `mix` of K rows: the rank that has a block of columns computes the rule on all
// of their values, and gives its part of the step to `write`, in no order. The result has the same
// bits on any number of ranks and for any owners of the rows, since a column lies on one rank and
// its values are integers, or beyond the lattice float64 values in the rows' order. `largest` gets
// the largest such entry of this rank's blocks. Returns on rank 0, for asked.honest, the deviations
// of all columns, added block by block; empty elsewhere. Collective; the same `mix` and `asked` on
// all ranks.
//
// Cost: that of map_columns and mix_columns for P / ranks columns, and K P / ranks values sent a
// rank. Memory a rank: K x 4096 values on their way and as integers. Blocks of 4096 columns, whose
// borders depend on the row alone, are what an `own` step gets.
using WriteColumns = std::function<void(int64_t begin, std::span<const double> step)>;
// What a ColumnFunction makes of mapped values [n, width].
using OwnStep = std::function<void(std::span<const double> values, std::span<double> step)>;
// `own`: for mix.rule.kind = kOwn, which measures no shares.
ColumnDeviations mix_by_columns(Communicator& comm, RowExchange& exchange,
                                std::span<const OwnedRow> rows, int64_t k, const ColumnMix& mix,
                                const ColumnsAsked& asked, const WriteColumns& write,
                                const OwnStep& own = nullptr, LargestEntry* largest = nullptr);

// Brings rank 0's mix to all ranks; `n` = 0 stands for none. Collective.
void bcast_mix(Communicator& comm, ColumnMix& mix, int64_t k);

}  // namespace hanse
