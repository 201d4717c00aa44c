#include "hanse/sums/column_exchange.hpp"

#include <cmath>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/rules/aggregation/own_columns.hpp"

namespace hanse {

namespace {

// Adds the blocks' deviations, on rank 0, in the order of the blocks: block b is the
// (b / ranks)-th of rank b % ranks.
ColumnDeviations sum_blocks(Communicator& comm, std::span<const ColumnDeviations> mine,
                            int64_t blocks) {
  std::vector<int64_t> counts;
  const auto all = comm.gatherv(mine, 0, &counts);
  ColumnDeviations sum;
  if (comm.rank() != 0) return sum;
  std::vector<std::size_t> first(counts.size());
  for (std::size_t rank = 1; rank < first.size(); ++rank) {
    first[rank] = first[rank - 1] + to_index(counts[rank - 1]);
  }
  for (std::size_t block = 0; block < to_index(blocks); ++block) {
    sum.add(all[first[block % first.size()]++]);
  }
  return sum;
}

}  // namespace

ColumnDeviations mix_by_columns(Communicator& comm, RowExchange& exchange,
                                std::span<const OwnedRow> rows, int64_t k, const ColumnMix& mix,
                                const ColumnsAsked& asked, const WriteColumns& write,
                                const OwnStep& own, LargestEntry* largest) {
  const auto n = to_index(mix.n);
  std::vector<int64_t> values(own ? 0 : n * to_index(RowExchange::kPiece));
  std::vector<double> reals(own ? n * to_index(RowExchange::kPiece) : 0);
  std::vector<double> step(to_index(RowExchange::kPiece));
  std::vector<double> shares(asked.honest.empty() ? 0 : step.size());
  std::vector<const float*> honest(asked.honest.size());
  std::vector<ColumnDeviations> blocks;
  const auto note = [&](double value, int64_t position) {
    if (largest == nullptr || std::abs(value) <= std::abs(largest->value)) return;
    *largest = {value, position};
  };
  const auto visit = [&](int64_t block, RowPart part, std::span<const float* const> at) {
    const std::size_t size = to_index(part.size());
    const auto out = std::span(step).first(size);
    const bool watches = !shares.empty() && !asked.byzantine_shares.empty();
    const auto shared = std::span(shares).first(shares.empty() ? 0 : size);
    if (own) {
      const auto mapped = std::span(reals).first(n * size);
      map_values(mix, at, mapped);
      own(mapped, out);
      for (const double value : out) note(value, -1);
    } else {
      const auto large =
          step_columns(mix, at, std::span(values).first(n * size), out,
                       watches ? ColumnWatch{asked.byzantine_shares, shared} : ColumnWatch{});
      for (const LargeEntry& entry : large) {
        note(out[entry.column], static_cast<int64_t>(entry.row));
      }
    }
    if (write) write(part.begin, out);
    if (asked.honest.empty()) return;
    for (std::size_t i = 0; i < honest.size(); ++i) honest[i] = at[to_index(asked.honest[i])];
    if (part.begin == exchange.blocks().at(block).begin) blocks.emplace_back();
    blocks.back().add(out, honest, shared);
  };
  exchange.each(rows, k, visit);
  if (asked.honest.empty()) return {};
  return sum_blocks(comm, blocks, exchange.blocks().size());
}

void bcast_mix(Communicator& comm, ColumnMix& mix, int64_t k) {
  struct {
    ColumnRule rule;
    int64_t n;
  } head{mix.rule, mix.n};
  comm.bcast(std::as_writable_bytes(std::span(&head, 1)), 0);
  mix.rule = head.rule;
  mix.n = head.n;
  mix.map.resize(to_index(mix.n * k));
  comm.bcast(std::span(mix.map), 0);
  if (mix.rule.kind != ColumnKind::kOwn) return;
  mix.weights.resize(to_index(mix.n));
  comm.bcast(std::span(mix.weights), 0);
}

}  // namespace hanse
