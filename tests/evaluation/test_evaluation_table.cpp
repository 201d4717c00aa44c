// The table of an evaluation: what it keeps of each client, and how ranks bring it together.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/evaluation/evaluation.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// Numbers that differ from client to client, and some that do not.
ClientEvaluation evaluation_of(int64_t client) {
  const auto c = static_cast<double>(client);
  ClientEvaluation found{.samples = 2,
                         .loss = 1 / (1 + c),
                         .accuracy = c / 7,
                         .train_samples = 3 + c,
                         .train_loss = -c,
                         .asked = {.f1 = c / 3},
                         .client = client};
  if (client % 2 == 1) {
    found.validation = TestScores{.samples = 9, .loss = c, .accuracy = 1, .auroc = -c, .asked = {}};
  }
  return found;
}

void expect_equal(const ClientEvaluation& found, const ClientEvaluation& expected) {
  EXPECT_EQ(found.client, expected.client);
  EXPECT_EQ(found.samples, expected.samples) << expected.client;
  EXPECT_EQ(found.loss, expected.loss) << expected.client;
  EXPECT_EQ(found.accuracy, expected.accuracy) << expected.client;
  EXPECT_EQ(found.train_samples, expected.train_samples) << expected.client;
  EXPECT_EQ(found.train_loss, expected.train_loss) << expected.client;
  EXPECT_EQ(found.took_part, expected.took_part) << expected.client;
  EXPECT_EQ(found.asked.f1, expected.asked.f1) << expected.client;
  EXPECT_TRUE(std::isnan(found.auroc) && std::isnan(found.asked.top5));
  EXPECT_FALSE(found.before.has_value());
  ASSERT_EQ(found.validation.has_value(), expected.validation.has_value()) << expected.client;
  if (!found.validation) return;
  EXPECT_EQ(found.validation->samples, expected.validation->samples) << expected.client;
  EXPECT_EQ(found.validation->loss, expected.validation->loss) << expected.client;
  EXPECT_EQ(found.validation->auroc, expected.validation->auroc) << expected.client;
}

TEST(EvaluationTable, HasWhatWasPut) {
  EvaluationTable table{evaluation_of(4), evaluation_of(5), evaluation_of(9)};
  const std::vector<int64_t> drawn{9, 2, 4, 9};
  table.mark_participants(drawn);
  std::size_t at = 0;
  for (const ClientEvaluation& found : table) {
    ClientEvaluation expected = evaluation_of(std::vector<int64_t>{4, 5, 9}[at++]);
    expected.took_part = expected.client != 5;
    expect_equal(found, expected);
  }
  EXPECT_EQ(at, 3U);
  table.set_before(1, evaluation_of(3).test_scores());
  EXPECT_FALSE(table[0].before || table[2].before);
  EXPECT_EQ(table[1].before->loss, evaluation_of(3).loss);
}

TEST(EvaluationTable, KeepsOnceWhatIsTheSameForAll) {
  EvaluationTable table;
  for (int64_t client = 0; client < 5; ++client) table.push_back(evaluation_of(client));
  const auto common = [&](Score score) { return table.scores(ScoresOf::kOwn, score).is_common(); };
  EXPECT_TRUE(common(Score::kSamples) && common(Score::kAuroc));
  EXPECT_FALSE(common(Score::kLoss) || common(Score::kAccuracy));
  EXPECT_TRUE(table.scores(ScoresOf::kBefore, Score::kLoss).is_common());
  // A NaN of the other sign is printed otherwise.
  NumberColumn column;
  column.push_back(std::nan(""));
  column.push_back(std::nan(""));
  EXPECT_TRUE(column.is_common());
  column.push_back(-std::nan(""));
  EXPECT_FALSE(column.is_common());
  EXPECT_EQ(
      (std::vector{std::signbit(column[0]), std::signbit(column[1]), std::signbit(column[2])}),
      (std::vector{false, false, true}));
}

// Rank r has the clients c with c % ranks = r but none of those below `empty` ranks.
TEST(EvaluationTable, GathersInTheOrderOfTheClients) {
  for (const int64_t clients : {0, 1, 3, 10}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const int64_t step : {1, 3}) {
        run_threads(ranks, [&](Communicator& comm) {
          EvaluationTable table;
          std::vector<int64_t> mine;
          for (int64_t c = clients - 1; c >= 0; --c) {
            if (c % comm.size() != comm.rank()) continue;
            mine.push_back(step * c);
            table.push_back(evaluation_of(step * c));
          }
          table.gather(comm, mine);
          ASSERT_EQ(table.size(), comm.rank() == 0 ? static_cast<std::size_t>(clients) : 0U);
          for (std::size_t i = 0; i < table.size(); ++i) {
            expect_equal(table[i], evaluation_of(step * static_cast<int64_t>(i)));
          }
        });
      }
    }
  }
}

// One number stands for all ranks only where they agree on it.
TEST(EvaluationTable, RanksMayEachHaveACommonNumber) {
  run_threads(3, [](Communicator& comm) {
    const std::vector<int64_t> mine{comm.rank()};
    EvaluationTable table{{.samples = 4, .loss = 1.0 + comm.rank()}};
    table.gather(comm, mine);
    if (comm.rank() != 0) return;
    EXPECT_TRUE(table.scores(ScoresOf::kOwn, Score::kSamples).is_common());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(table[i].loss, 1.0 + static_cast<double>(i));
  });
}

// The promise of hanse plan: with binary classes and nothing asked for, 64 bytes beside the lists.
TEST(EvaluationBytes, FollowWhatIsAskedFor) {
  EXPECT_EQ(evaluation_bytes(1000, 4, {}, false), 1000 * 64);
  EXPECT_EQ(evaluation_bytes(1000, 0, {}, false), 1000 * 56);
  EXPECT_EQ(evaluation_bytes(1000, 2, {.f1 = true}, false), 1000 * 80);
  EXPECT_EQ(evaluation_bytes(1000, 4, {}, true), 1000 * 88);
  EXPECT_EQ(evaluation_bytes(1000, 4, {.on = EvaluateOn::kBoth}, true), 1000 * 112);
}

}  // namespace
}  // namespace hanse
