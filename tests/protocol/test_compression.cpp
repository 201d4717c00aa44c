// What clients send of their updates, against slow definitions.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/protocol/update_stage.hpp"
#include "protocol/resume.hpp"
#include "protocol/tiny_training.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;
constexpr int64_t kBuffers = 3;

ParameterLayout layout_of(int64_t n) {
  ParameterLayout layout;
  layout.add("w", {n}, 1);
  layout.add_buffer("buffer", {kBuffers});
  return layout;
}

// The row has n values, and the buffers behind them.
Row drawn_row(int64_t n, uint64_t seed) {
  RandomStream stream(seed, Purpose::kData);
  Row row(static_cast<std::size_t>(n + kBuffers));
  for (float& value : row) value = static_cast<float>(stream.below(9) - 4) / 4;  // ties and zeros
  return row;
}

// Sends the row; `state` is the client's.
Row sent(UpdateStage& stage, Row row, Row& state, int64_t client = 5, int64_t round = 2) {
  state.resize(static_cast<std::size_t>(width_of(stage.state_blocks())));
  stage.apply({.client = client,
               .round = round,
               .seed = 7,
               .update = row,
               .state = state,
               .second_row = {}});
  return row;
}

const CompressionOptions kKinds[] = {{.compress = Compress::kTopK, .keep = 0.3},
                                     {.compress = Compress::kRandomK, .keep = 4},
                                     {.compress = Compress::kSign},
                                     {.compress = Compress::kQuantize, .bits = 3}};

// The k largest, of equal ones the first, one after another.
Row slow_top(const Row& row, std::size_t n, std::size_t k) {
  Row kept(row.size());
  std::copy(row.begin() + static_cast<int64_t>(n), row.end(),
            kept.begin() + static_cast<int64_t>(n));
  std::set<std::size_t> chosen;
  while (chosen.size() < k) {
    std::size_t best = n;
    for (std::size_t i = 0; i < n; ++i) {
      if (chosen.count(i) > 0) continue;
      if (best == n || std::abs(row[i]) > std::abs(row[best])) best = i;
    }
    chosen.insert(best);
    kept[best] = row[best];
  }
  return kept;
}

TEST(Compression, TopKAndItsBytes) {
  for (const int64_t n : {1, 2, 7, 33, 100}) {
    for (const double keep : {0.001, 0.3, 0.99, 1.0, 5.0, 1e6}) {
      const auto stage = make_compression(
          {.compress = Compress::kTopK, .keep = keep, .error_feedback = false}, layout_of(n));
      const double wanted = keep < 1 ? std::round(keep * static_cast<double>(n)) : keep;
      const auto k = static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(n)));
      const Row row = drawn_row(n, static_cast<uint64_t>(n));
      Row none;
      EXPECT_EQ(sent(*stage, row, none), slow_top(row, static_cast<std::size_t>(n), k));
      int64_t bits = 0;
      while ((int64_t{1} << bits) < n) ++bits;
      EXPECT_EQ(stage->update_bytes(n + kBuffers),
                (static_cast<int64_t>(k) * (32 + bits) + 7) / 8 + 4 * kBuffers);
    }
  }
  expect_error<InvalidArgument>(
      [] { make_compression({.compress = Compress::kTopK, .keep = 1.5}, layout_of(9)); },
      {"1.5 is neither a share nor a number", "comm.keep"});
  EXPECT_EQ(make_compression({}, layout_of(9)), nullptr);
}

TEST(Compression, RandomKIsRightOnAverage) {
  constexpr int64_t kN = 10, kTimes = 4000;
  const auto stage = make_compression(
      {.compress = Compress::kRandomK, .keep = 3, .error_feedback = false}, layout_of(kN));
  EXPECT_EQ(stage->update_bytes(kN + kBuffers), 4 * 3 + 4 * kBuffers);
  Row row(kN + kBuffers), none;
  std::iota(row.begin(), row.end(), 1.0F);
  std::vector<double> mean(row.size());
  for (int64_t round = 1; round <= kTimes; ++round) {
    const Row found = sent(*stage, row, none, 5, round);
    for (std::size_t i = 0; i < found.size(); ++i) mean[i] += found[i] / double{kTimes};
    EXPECT_EQ(std::count(found.begin(), found.end(), 0.0F), kN - 3);
  }
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(mean[i], row[i], 0.1 * row[i]) << i;
  EXPECT_NE(sent(*stage, row, none, 5, 1), sent(*stage, row, none, 6, 1));
  EXPECT_EQ(sent(*stage, row, none, 5, 1), sent(*stage, row, none, 5, 1));
}

TEST(Compression, SignsOfTheMeanSize) {
  const auto stage =
      make_compression({.compress = Compress::kSign, .error_feedback = false}, layout_of(5));
  Row none;
  EXPECT_EQ(sent(*stage, {1, -2, 0, 6, -3, 9, -9, 0}, none), (Row{3, -3, 0, 3, -3, 9, -9, 0}));
  EXPECT_EQ(sent(*stage, {0, 0, 0, 0, 0, 1, 2, 3}, none), (Row{0, 0, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(stage->update_bytes(8), 1 + 4 + 4 * kBuffers);
  EXPECT_EQ(make_compression({.compress = Compress::kSign}, layout_of(9))->update_bytes(12),
            2 + 4 + 12);
}

TEST(Compression, LevelsOfTheLargest) {
  // Three bits: levels of a third of the largest, 3.
  const CompressionOptions nearest{.compress = Compress::kQuantize, .bits = 3};
  Row state;
  const auto stage = make_compression(nearest, layout_of(6));
  EXPECT_EQ(sent(*stage, {3, -1.4F, 1.6F, 0, -0.4F, -2.6F, 8, 8, 8}, state),
            (Row{3, -1, 2, 0, -0.0F, -3, 8, 8, 8}));
  EXPECT_EQ(stage->update_bytes(9), (6 * 3 + 7) / 8 + 4 + 4 * kBuffers);
  CompressionOptions drawn = nearest;
  drawn.error_feedback = false;
  const auto unbiased = make_compression(drawn, layout_of(2));
  double sum = 0;
  for (int64_t round = 1; round <= 4000; ++round) {
    const Row found = sent(*unbiased, {-3, 1.25F, 0, 0, 0}, state, 1, round);
    EXPECT_EQ(found[0], -3);
    EXPECT_TRUE(found[1] == 1 || found[1] == 2) << found[1];
    sum += found[1] / 4000.0;
  }
  EXPECT_NEAR(sum, 1.25, 0.03);
}

// Nothing is lost: what was sent and what is left out sum to the updates, exactly where entries are
// sent as they are.
TEST(Compression, ErrorFeedbackSendsTheRestLater) {
  constexpr int64_t kN = 13;
  for (const CompressionOptions& options : kKinds) {
    const auto stage = make_compression(options, layout_of(kN));
    std::map<int64_t, Row> states;
    std::map<int64_t, std::vector<double>> given, arrived;
    for (int64_t round = 1; round <= 40; ++round) {
      for (const int64_t client : {3, 8}) {
        const Row row = drawn_row(kN, static_cast<uint64_t>(100 * client + round));
        const Row found = sent(*stage, row, states[client], client, round);
        ASSERT_EQ(states[client].size(), static_cast<std::size_t>(kN));
        given[client].resize(kN);
        arrived[client].resize(kN);
        for (std::size_t i = 0; i < kN; ++i) {
          given[client][i] += row[i];
          arrived[client][i] += found[i];
        }
        EXPECT_TRUE(std::equal(found.begin() + kN, found.end(), row.begin() + kN));
      }
    }
    const bool whole = name_of(options.compress).ends_with("-k");
    for (const int64_t client : {3, 8}) {
      for (std::size_t i = 0; i < kN; ++i) {
        EXPECT_NEAR(arrived[client][i] + states[client][i], given[client][i], whole ? 0 : 1e-3)
            << name_of(options.compress);
        EXPECT_LT(std::abs(states[client][i]), 30)
            << name_of(options.compress) << ", the rest grows";
      }
    }
    EXPECT_NE(states[3], states[8]);
  }
}

TEST(Compression, SameBitsOnAnyRanksAndAfterAResume) {
  for (CompressionOptions options : kKinds) {
    for (const bool feedback : {false, true}) {
      options.error_feedback = feedback;
      const auto stage = make_compression(options, TinyModel().layout());
      const TinyJob job{.stateful = feedback, .stages = {stage.get()}};
      const auto expected = train_threads(1, job, 9);
      EXPECT_NE(expected, train_threads(1, {.stateful = feedback}, 9));
      for (int ranks = 2; ranks <= 3; ++ranks) {
        EXPECT_EQ(train_threads(ranks, job, 9), expected) << name_of(options.compress);
        const Kept kept = train_and_keep<TinyTraining>(ranks, job, 4);
        EXPECT_EQ(go_on<TinyTraining>(5 - ranks, job, kept, 5), expected)
            << name_of(options.compress);
      }
    }
  }
}

}  // namespace
}  // namespace hanse
