// The Gram matrix of rows on different ranks: against a slow sum, the same bits on any number of
// ranks, and what a rank gets to see.
#include <cmath>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/sums/gram.hpp"
#include "sums/gram_support.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// Row `position` belongs to rank (position * stride + 1) % ranks.
std::vector<double> gram_on(int ranks, const std::vector<std::vector<float>>& rows,
                            const std::vector<RowPart>& parts, int stride) {
  std::vector<double> result;
  run_threads(ranks, [&](Communicator& comm) {
    std::vector<OwnedRow> mine;
    for (auto position = static_cast<int64_t>(rows.size()) - 1; position >= 0; --position) {
      if ((position * stride + 1) % ranks != comm.rank()) continue;
      mine.push_back({position, rows[static_cast<std::size_t>(position)]});
    }
    GramExchange exchange(comm, parts);
    for (int repeat = 0; repeat < 2; ++repeat) {
      auto gram = exchange.gram(mine, static_cast<int64_t>(rows.size()));
      EXPECT_EQ(gram.empty(), comm.rank() != 0);
      if (comm.rank() == 0) result = std::move(gram);
    }
  });
  return result;
}

TEST(GramExchange, IsTheSlowSumWithTheSameBitsOnAnyRanks) {
  for (const int64_t n : {1, 2, 7, 4096, 4097, 25000}) {
    for (const int64_t k : {1, 2, 5, 9}) {
      const auto rows = make_rows(k, n);
      for (const auto& parts : {std::vector<RowPart>{{0, n}},
                                std::vector<RowPart>{{0, (n + 1) / 2}, {(n + 1) / 2, n}}}) {
        if (parts.back().size() == 0) continue;
        const auto expected = slow_gram(rows, parts);
        const auto alone = gram_on(1, rows, parts, 1);
        ASSERT_EQ(alone.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(alone[i], expected[i], 1e-12 * static_cast<double>(n)) << n << " " << k;
        }
        for (int ranks = 2; ranks <= 4; ++ranks) {
          for (const int stride : {0, 1, 3}) {  // 0: one rank has all rows
            EXPECT_EQ(gram_on(ranks, rows, parts, stride), alone) << n << " " << k << " " << ranks;
          }
        }
      }
    }
  }
}

TEST(GramExchange, ManyBlocksOfALongRow) {
  const int64_t n = GramExchange::kPiece * GramBlocks::kMost * 2 + 77;  // three pieces
  const auto rows = make_rows(2, n);
  const std::vector<RowPart> parts{{0, n}};
  const auto alone = gram_on(1, rows, parts, 1);
  const auto expected = slow_gram(rows, parts);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(alone[i], expected[i], 1e-9 * static_cast<double>(n));
  }
  EXPECT_EQ(gram_on(3, rows, parts, 1), alone);
}

// Products of ten blocks that are whole numbers, added a block of each rank at once, a few, or all.
TEST(GramSums, AddTheBlocksInTheirOrderHoweverManyAtOnce) {
  constexpr int64_t kRows = 5;
  const std::vector<RowPart> parts{{0, 6 * GramBlocks::kLength},
                                   {6 * GramBlocks::kLength, 10 * GramBlocks::kLength}};
  const auto product = [](int64_t block, int64_t i, int64_t j) {
    return static_cast<double>(1 + block) *
           static_cast<double>(10 * std::max(i, j) + std::min(i, j));
  };
  std::vector<double> expected;
  for (const auto& [first, last] : {std::pair{0, 6}, {6, 10}}) {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kRows; ++j) {
        double sum = 0;
        for (int64_t block = first; block < last; ++block) sum += product(block, i, j);
        expected.push_back(sum);
      }
    }
  }
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const int64_t bytes : {int64_t{1}, int64_t{2 * 15 * 8}, GramSums::kBytes}) {
      run_threads(ranks, [&](Communicator& comm) {
        GramBlocks blocks(comm, parts);
        ASSERT_EQ(blocks.size(), 10);
        std::vector<int64_t> mine;
        for (int64_t i = comm.rank(); i < kRows; i += comm.size()) mine.push_back(i);
        blocks.learn_owners(mine, kRows);
        GramSums sums(comm, blocks, bytes);
        for (int64_t first = 0; first < blocks.size(); first += comm.size()) {
          const int64_t block = first + comm.rank();
          for (int64_t i = 0; i < kRows && block < blocks.size(); ++i) {
            for (int64_t j = 0; j <= i; ++j) sums.products().push_back(product(block, i, j));
          }
          sums.next(first);
        }
        EXPECT_EQ(sums.matrices(), comm.rank() == 0 ? expected : std::vector<double>());
      });
    }
  }
}

// A row a rank: what comes from another rank is part of its row. Of every value one copy travels,
// or none when it stays.
TEST(GramExchange, NoRankGetsAnothersWholeRow) {
  for (const int ranks : {2, 3, 4}) {
    for (const int64_t n : {2, 100, 5000, 40000}) {
      const auto rows = make_rows(ranks, n);
      std::mutex mutex;
      std::vector<int64_t> sent(static_cast<std::size_t>(ranks));
      run_threads(ranks, [&](Communicator& inner) {
        Counting comm(inner);
        GramExchange exchange(comm, {{0, n}});
        const OwnedRow mine{comm.rank(), rows[static_cast<std::size_t>(comm.rank())]};
        exchange.gram({&mine, 1}, ranks);
        EXPECT_EQ(comm.received[comm.rank()], 0);
        EXPECT_LT(comm.others, 8 * (3 * ranks + 128 * ranks * ranks));  // products, not values
        const std::lock_guard lock(mutex);
        for (const auto& [from, bytes] : comm.received) {
          EXPECT_LT(bytes, 4 * n) << ranks << " ranks, " << n << " values, from " << from;
          sent[static_cast<std::size_t>(from)] += bytes;
        }
      });
      for (const int64_t bytes : sent) EXPECT_LE(bytes, 4 * n);
    }
  }
}

}  // namespace
}  // namespace hanse
