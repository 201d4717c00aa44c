// Which numbers of ranks `hanse plan --advise` tries, which it names, and what it says of them.
#include <vector>

#include <gtest/gtest.h>

#include "run/plan/advice.hpp"

namespace hanse {
namespace {

using Ranks = std::vector<int64_t>;

TEST(Advice, TriesPowersOfTwoAndFullNodes) {
  EXPECT_EQ(ranks_to_try(10, 16), (Ranks{1, 2, 4, 8, 16}));
  EXPECT_EQ(ranks_to_try(16, 16),
            (Ranks{1, 2, 4, 8, 16, 32}));  // rank 0 of two nodes trains nobody
  EXPECT_EQ(ranks_to_try(100, 48), (Ranks{1, 2, 4, 8, 16, 32, 48, 96, 192}));
  EXPECT_EQ(ranks_to_try(2, 0.5), (Ranks{1, 2, 4}));
  EXPECT_EQ(ranks_to_try(1e9, 64).back(), 4096);
}

// A job of 32 s on one rank whose training is divided evenly, and whose messages take `link_s` for
// each step of the list.
std::vector<RanksTried> tried_with(double link_s) {
  std::vector<RanksTried> tried;
  for (const int64_t ranks : {1, 2, 4, 8, 16, 32}) {
    const double train_s = 32.0 / static_cast<double>(ranks);
    tried.push_back(
        {.cluster = {.ranks = ranks, .hosts = (ranks + 7) / 8, .cores = 8},
         .times = {.training_s = train_s, .exchange_s = link_s * static_cast<double>(tried.size())},
         .even_s = train_s,
         .most = 2,
         .rank_bytes = 1e6,
         .host_bytes = 1e6 * static_cast<double>(std::min<int64_t>(ranks, 8))});
  }
  return tried;
}

TEST(Advice, NamesTheRanksThatPayOff) {
  Advice advice = choose_ranks(tried_with(0.8));  // 32, 16.8, 9.6, 6.4, 5.2, 5 s
  EXPECT_EQ(advice.most, 3U);
  EXPECT_EQ(advice.thrifty, 3U);
  advice = choose_ranks(tried_with(0));
  EXPECT_EQ(advice.most, 5U);
  EXPECT_EQ(advice.thrifty, 5U);
  advice = choose_ranks(tried_with(20));  // 32, 36, ... s
  EXPECT_EQ(advice.most, 0U);
  EXPECT_EQ(advice.thrifty, 0U);
}

TEST(Advice, NamesTheRanksThatDoHalfOfWhatTheyCould) {
  auto tried = tried_with(0);
  for (RanksTried& row : tried) row.times.rest_s = 2;  // 34, 18, 10, 6, 4, 3 s
  EXPECT_EQ(choose_ranks(tried).most, 5U);
  EXPECT_EQ(choose_ranks(tried).thrifty, 4U);  // 8.5 times as fast
}

TEST(Advice, CountsMessagesTwice) {
  // 32, 17.3, 10.6, 7.9, 7.2, 7.5 s: eight ranks are 1.34 times as fast as four, and not a fifth
  // faster with twice the messages
  EXPECT_EQ(choose_ranks(tried_with(1.3)).most, 2U);
}

TEST(Advice, LooksBehindAStepThatBringsNothing) {
  auto tried = tried_with(0);
  tried[3].times.training_s = 7.9;  // rank 0 of a second node trains nobody
  EXPECT_EQ(choose_ranks(tried).most, 5U);
  for (std::size_t k = 4; k < tried.size(); ++k) tried[k].times.training_s = 6.8;
  EXPECT_EQ(choose_ranks(tried).most, 2U);  // 8 s; 6.8 s are no fifth a doubling
}

TEST(Advice, EvaluationsCountAsRoundsDo) {
  auto tried = tried_with(0);
  for (RanksTried& row : tried) {
    row.rounds = 10;
    row.evaluations = 5;
    row.times.evaluation_s = 90;  // which do not get faster
  }
  EXPECT_EQ(tried.front().run_s(), 770);
  EXPECT_EQ(longest_part(tried.front()), "evaluations");
  EXPECT_EQ(choose_ranks(tried).most, 1U);  // 610 s; with four ranks 530
}

TEST(Advice, TellsWhatARunsTimeGoesTo) {
  RanksTried row{.times = {.training_s = 10}, .even_s = 4, .most = 2};
  EXPECT_EQ(longest_part(row), "unequal shares");
  row.most = 1;
  EXPECT_EQ(longest_part(row), "the longest client");
  row.even_s = 6;
  EXPECT_EQ(longest_part(row), "training");
  row.times.exchange_s = 9;
  row.server_s = 1;
  EXPECT_EQ(longest_part(row), "the link");
  row.server_s = 8;
  EXPECT_EQ(longest_part(row), "rank 0");
  row.times.products_s = 20;
  EXPECT_EQ(longest_part(row), "inner products");
}

std::string words_of(const std::vector<RanksTried>& tried, const AdvisedJob& job) {
  PlanSheet sheet;
  describe(tried, job, sheet);
  return sheet.lines();
}

void expect_part(const std::string& text, const std::string& part, bool is_there = true) {
  EXPECT_EQ(text.find(part) != text.npos, is_there) << part << " in\n" << text;
}

TEST(Advice, SaysWhatToTakeWhereItEndsAndWhatElseToDo) {
  const AdvisedJob job{.participants = 31, .longest_s = 0.5, .room_bytes = 5e6, .link = "assumed"};
  std::string said = words_of(tried_with(0.8), job);
  expect_part(said, "Take 8 ranks on 1 node: 5 times as fast as one rank (62 % efficient)");
  expect_part(said, "At most", false);
  expect_part(said, "Where it ends: on 16 ranks on 2 nodes the time is mostly the link.");
  expect_part(said, "- Participants: 31 a round");
  expect_part(said, "- The longest client trains for 500 ms");
  expect_part(said,
              "- Memory: 1.0 MB a rank and 8.0 MB a node of 8 ranks on 1 node; this "
              "machine has 5.0 MB.");
  expect_part(said, "- A node of 8 ranks on 1 node needs 8.0 MB: ask for more memory than here");
  expect_part(said,
              "5 on a node of 8 cores, a rank each, take 32 s; 8 ranks each, 1 at a time, 32 s");
  expect_part(said, "scripts/sweep JOB --seeds 5 --jobs 5");
  said = words_of(tried_with(20), {.room_bytes = 1e9, .sample_s = 3e-6});
  expect_part(said, "Take one rank: twice as many make the run less than a fifth faster.");
  expect_part(said, "ask for more memory", false);
  expect_part(said, "mpirun -n 1 hanse run JOB --simulate.sample-us=3 --simulate.hosts=1 ");
}

}  // namespace
}  // namespace hanse
