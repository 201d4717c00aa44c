// A stage between training and the sum.
#include <gtest/gtest.h>

#include "hanse/protocol/update_stage.hpp"
#include "protocol/resume.hpp"
#include "protocol/tiny_training.hpp"

namespace hanse {
namespace {

// Scales updates by 1/(1 + k `slope`), k the client's participations before, and reports how many
// there were.
class Shrink final : public UpdateStage {
 public:
  Shrink(float scale, float slope) : scale_(scale), slope_(slope) {}

  std::vector<StateBlock> state_blocks() const override { return {{"none", 2}, {"count", 1}}; }
  int64_t second_row_width() const override { return 2; }

  void apply(const StagedUpdate& staged) override {
    ASSERT_EQ(staged.state.size(), 3U);
    ASSERT_EQ(staged.second_row.size(), 2U);
    float& count = staged.state[2];
    for (float& value : staged.update) value *= scale_ / (1 + slope_ * count);
    staged.second_row[0] = 1;
    staged.second_row[1] = count;
    ++count;
  }

  void observe(std::span<const float> second_row) override {
    seen.emplace_back(second_row.begin(), second_row.end());
  }

  std::vector<std::vector<float>> seen;  // by rank 0, a round

 private:
  float scale_, slope_;
};

TEST(UpdateStage, ItsUpdatesAreSummed) {
  Shrink half(0.5F, 0);
  for (const bool stateful : {false, true}) {
    TinyJob plain{.stateful = stateful};
    plain.server.lr = 0.5;
    const auto expected = train_threads(2, plain, 5);
    const auto found = train_threads(2, {.stateful = stateful, .stages = {&half}}, 5);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
  }
}

TEST(UpdateStage, ItsSecondRowsAreSummedByTheClientsWeights) {
  Shrink counts(1, 0);
  train_threads(3, {.sampler = "full", .stages = {&counts}}, 4);
  ASSERT_EQ(counts.seen.size(), 4U);
  for (std::size_t round = 0; round < 4; ++round) {  // the weights of all clients sum to 1
    EXPECT_NEAR(counts.seen[round][0], 1, 1e-6);
    EXPECT_NEAR(counts.seen[round][1], static_cast<double>(round), 1e-6);
  }
}

// Its state moves with the clients and is in checkpoints, beside the clients' own.
TEST(UpdateStage, SameBitsOnAnyRanksAndAfterAResume) {
  Shrink shrink(1, 0.3F);
  for (const bool stateful : {false, true}) {
    const TinyJob job{.stateful = stateful, .stages = {&shrink}};
    const auto expected = train_threads(1, job, 9);
    EXPECT_NE(expected, train_threads(1, {.stateful = stateful}, 9));
    for (int ranks = 2; ranks <= 4; ++ranks) {
      EXPECT_EQ(train_threads(ranks, job, 9), expected) << ranks;
      const Kept kept = train_and_keep<TinyTraining>(ranks, job, 4);
      EXPECT_EQ(go_on<TinyTraining>(5 - ranks, job, kept, 5), expected) << ranks;
    }
  }
}

// Both change the updates of a run, each with a state and a second row of its own.
TEST(Stages, SeveralInARun) {
  Shrink half(0.5F, 0), quarter(0.25F, 0);
  TinyJob plain{.sampler = "full", .stateful = true};
  plain.server.lr = 0.125;
  const auto expected = train_threads(1, plain, 3);
  for (int ranks = 1; ranks <= 3; ++ranks) {
    half.seen.clear();
    const TinyJob job{.sampler = "full", .stateful = true, .stages = {&half, &quarter}};
    const auto found = train_threads(ranks, job, 3);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
    ASSERT_EQ(half.seen.size(), 3U);
    EXPECT_NEAR(half.seen[2][1], 2, 1e-6);
  }
  EXPECT_EQ(half.seen, std::vector(quarter.seen.end() - 3, quarter.seen.end()));
}

// Two stages do what one does that has both of their factors, in the order of the list, with blocks
// and second rows of their own.
TEST(Stages, AreAppliedOneAfterTheOther) {
  Shrink first(0.5F, 1), last(0.25F, 0);
  const Stages stages{{&first, &last}};
  EXPECT_EQ(width_of(stages.state_blocks()), 6);
  EXPECT_EQ(stages.second_row_width(), 4);
  EXPECT_EQ(stages.update_bytes(10), 40);
  std::vector<float> update{8, -16}, state{0, 0, 3, 0, 0, 7}, row(4);
  stages.apply(
      {.client = 0, .round = 1, .seed = 1, .update = update, .state = state, .second_row = row});
  EXPECT_EQ(update, (std::vector<float>{0.25F, -0.5F}));  // 1/2 by 1 + 3, then 1/4
  EXPECT_EQ(state, (std::vector<float>{0, 0, 4, 0, 0, 8}));
  EXPECT_EQ(row, (std::vector<float>{1, 3, 1, 7}));
  stages.observe(row);
  EXPECT_EQ(first.seen, (std::vector<std::vector<float>>{{1, 3}}));
  EXPECT_EQ(last.seen, (std::vector<std::vector<float>>{{1, 7}}));
}

}  // namespace
}  // namespace hanse
