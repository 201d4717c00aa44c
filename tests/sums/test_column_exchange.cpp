// Steps by columns of rows on different ranks: against the rule on whole rows, with the same bits
// on any number of ranks, and what a rank gets to see.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/sums/column_exchange.hpp"
#include "sums/gram_support.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

struct Step {
  std::vector<double> values;  // [P]
  ColumnDeviations deviations;
};

// A mix of n = K - 1 rows: neighbours' means.
ColumnMix neighbours(int64_t k, const ColumnRule& rule) {
  ColumnMix mix{
      .rule = rule, .map = std::vector<double>(static_cast<std::size_t>((k - 1) * k)), .n = k - 1};
  for (int64_t a = 0; a + 1 < k; ++a) {
    mix.map[static_cast<std::size_t>(a * k + a)] = 0.25;
    mix.map[static_cast<std::size_t>(a * k + a + 1)] = 0.75;
  }
  return mix;
}

std::vector<OwnedRow> rows_of(int rank, int ranks, const Rows& rows, int stride) {
  std::vector<OwnedRow> mine;
  for (auto position = static_cast<int64_t>(rows.size()) - 1; position >= 0; --position) {
    if ((position * stride + 1) % ranks != rank) continue;
    mine.push_back({position, rows[static_cast<std::size_t>(position)]});
  }
  return mine;
}

// A rule of one's own, whose sums depend on the block's first column, too.
void weighted_sum(std::span<const double> values, std::span<const double> weights,
                  std::span<double> step) {
  for (std::size_t j = 0; j < step.size(); ++j) {
    step[j] = 0.25 * values[0];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      step[j] += weights[i] * values[i * step.size() + j];
    }
  }
}

Step step_on(int ranks, const Rows& rows, const ColumnMix& mix, int stride,
             const ColumnsAsked& asked, bool own = false) {
  const std::size_t n = rows.front().size();
  Step result{.values = std::vector<double>(n, std::nan("")), .deviations = {}};
  std::mutex mutex;
  run_threads(ranks, [&](Communicator& comm) {
    RowExchange exchange(comm, {{0, static_cast<int64_t>(n)}});
    ColumnMix own_mix;
    if (comm.rank() == 0) own_mix = mix;
    bcast_mix(comm, own_mix, std::ssize(rows));
    const auto mine = rows_of(comm.rank(), ranks, rows, stride);
    const auto weigh = [&](std::span<const double> values, std::span<double> step) {
      weighted_sum(values, own_mix.weights, step);
    };
    const auto found = mix_by_columns(
        comm, exchange, mine, std::ssize(rows), own_mix, asked,
        [&](int64_t begin, std::span<const double> values) {
          const std::lock_guard lock(mutex);
          for (std::size_t i = 0; i < values.size(); ++i) {
            double& value = result.values[static_cast<std::size_t>(begin) + i];
            EXPECT_TRUE(std::isnan(value)) << "written twice";
            value = values[i];
          }
        },
        own ? OwnStep(weigh) : nullptr);
    const std::lock_guard lock(mutex);
    if (comm.rank() == 0) result.deviations = found;
  });
  return result;
}

const ColumnRule kRules[] = {{ColumnKind::kMedian, 0, false},
                             {ColumnKind::kTrimmedMean, 1, false},
                             {ColumnKind::kNearMedian, 2, false}};

TEST(ColumnExchange, IsTheRuleOnWholeRowsWithTheSameBitsOnAnyRanks) {
  const std::vector<int64_t> honest{0, 2, 3};
  for (const int64_t n : {1, 2, 97, 4097, 25000}) {
    const Rows rows = make_rows(6, n);
    std::vector<const float*> whole;
    for (const auto& row : rows) whole.push_back(row.data());
    for (const ColumnRule& rule : kRules) {
      const ColumnMix mix = neighbours(6, rule);
      std::vector<int64_t> lattice(static_cast<std::size_t>(5 * n));
      std::vector<double> expected(static_cast<std::size_t>(n)), shares(expected.size());
      const std::vector<double> weights{0, 0.5, 0, 1, 0.25};
      map_columns(mix, whole, n, lattice);
      mix_columns(rule, lattice, 5, expected, {weights, shares});
      ColumnDeviations slow;
      const std::vector<const float*> good{whole[0], whole[2], whole[3]};
      slow.add(expected, good, shares);
      const Step alone = step_on(1, rows, mix, 1, {honest, weights});
      EXPECT_EQ(alone.values, expected);
      EXPECT_NEAR(alone.deviations.step, slow.step, 1e-12 * slow.step);
      EXPECT_NEAR(alone.deviations.honest, slow.honest, 1e-12 * slow.honest);
      EXPECT_NEAR(alone.deviations.shares, slow.shares, 1e-12 * static_cast<double>(n));
      EXPECT_EQ(alone.deviations.columns, n);
      for (int ranks = 2; ranks <= 4; ++ranks) {
        for (const int stride : {0, 1, 3}) {  // 0: one rank has all rows
          const Step step = step_on(ranks, rows, mix, stride, {honest, weights});
          EXPECT_EQ(step.values, expected) << n << " " << ranks;
          EXPECT_EQ(step.deviations.step, alone.deviations.step);
          EXPECT_EQ(step.deviations.honest, alone.deviations.honest);
          EXPECT_EQ(step.deviations.shares, alone.deviations.shares);
        }
      }
    }
  }
}

TEST(ColumnExchange, TellsOfTheLargestEntryBeyondTheLattice) {
  Rows rows = make_rows(6, 9000);
  for (auto& row : rows) row[20] = -3e5F;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i][8500] = 1e6F + 1e5F * float(i);
  ColumnMix mix{.rule = kRules[1], .map = std::vector<double>(36), .n = 6};
  for (std::size_t i = 0; i < 6; ++i) mix.map[7 * i] = 1;
  const Step alone = step_on(1, rows, mix, 1, {});
  EXPECT_EQ(alone.values[8500], 1.25e6);  // without the rows 0 and 5
  EXPECT_EQ(alone.values[20], -3e5);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    std::mutex mutex;
    LargestEntry largest;
    run_threads(ranks, [&](Communicator& comm) {
      RowExchange exchange(comm, {{0, 9000}});
      LargestEntry own;
      const auto mine = rows_of(comm.rank(), ranks, rows, 1);
      mix_by_columns(comm, exchange, mine, 6, mix, {}, nullptr, nullptr, &own);
      const std::lock_guard lock(mutex);
      if (std::abs(own.value) > std::abs(largest.value)) largest = own;
    });
    EXPECT_EQ(largest.value, alone.values[8500]);
    EXPECT_EQ(largest.position, 4);
    EXPECT_EQ(step_on(ranks, rows, mix, 1, {}).values, alone.values);
  }
}

// A rule of one's own gets the same blocks on any ranks, of 4096 columns at most.
TEST(ColumnExchange, ARuleOfOnesOwnGetsTheSameBlocksOnAnyRanks) {
  const std::vector<int64_t> honest{0, 2};
  for (const int64_t n : {1, 97, 4097, 25000}) {
    const Rows rows = make_rows(6, n);
    ColumnMix mix = neighbours(6, {.kind = ColumnKind::kOwn});
    mix.weights = {0.5, -1, 0.25, 2, 0.125};
    const auto mapped = [&](std::size_t a, int64_t j) {
      const auto at = static_cast<std::size_t>(j);
      return 0.25 * static_cast<double>(rows[a][at]) + 0.75 * static_cast<double>(rows[a + 1][at]);
    };
    const Step alone = step_on(1, rows, mix, 1, {honest, {}}, true);
    const auto one_rank = make_single_communicator();
    const GramBlocks blocks(*one_rank, {{0, n}});
    for (int64_t b = 0; b < blocks.size(); ++b) {
      const RowPart block = blocks.at(b);
      ASSERT_LE(block.size(), RowExchange::kPiece);
      for (int64_t j = block.begin; j < block.end; ++j) {
        double expected = 0.25 * mapped(0, block.begin);
        for (std::size_t a = 0; a < 5; ++a) expected += mix.weights[a] * mapped(a, j);
        EXPECT_EQ(alone.values[static_cast<std::size_t>(j)], expected) << j;
      }
    }
    for (int ranks = 2; ranks <= 4; ++ranks) {
      const Step step = step_on(ranks, rows, mix, 3, {honest, {}}, true);
      EXPECT_EQ(step.values, alone.values) << n << " " << ranks;
      EXPECT_EQ(step.deviations.step, alone.deviations.step);
    }
  }
}

TEST(ColumnExchange, NoRankGetsAnothersWholeRow) {
  for (const int ranks : {2, 3, 4}) {
    for (const int64_t n : {2, 100, 5000, 40000}) {
      const Rows rows = make_rows(ranks, n);
      run_threads(ranks, [&](Communicator& inner) {
        Counting comm(inner);
        RowExchange exchange(comm, {{0, n}});
        const OwnedRow mine{comm.rank(), rows[static_cast<std::size_t>(comm.rank())]};
        ColumnMix mix{.rule = {ColumnKind::kMedian, 0, false}, .map = {}, .n = ranks};
        for (int i = 0; i < ranks * ranks; ++i) mix.map.push_back(i % (ranks + 1) == 0);
        const std::vector<int64_t> honest{0};
        mix_by_columns(comm, exchange, {&mine, 1}, ranks, mix, {.honest = honest}, nullptr);
        EXPECT_EQ(comm.received[comm.rank()], 0);
        EXPECT_LT(comm.others, 8 * 3 * ranks + 128 * 32);  // who owns what, and deviations
        for (const auto& [from, bytes] : comm.received) {
          EXPECT_LT(bytes, 4 * n) << ranks << " ranks, " << n << " values, from " << from;
        }
      });
    }
  }
}

}  // namespace
}  // namespace hanse
