#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/local_update.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// 1 / (lr^2 B)
TEST(FeedbackScale, CountsStepsAndTheRoundsRate) {
  EXPECT_DOUBLE_EQ(feedback_scale({.steps = 1, .lr = 0.1}, 1, 17), 100);
  EXPECT_DOUBLE_EQ(feedback_scale({.steps = 8, .lr = 0.5}, 1, 17), 0.5);
  EXPECT_DOUBLE_EQ(feedback_scale({.steps = 8, .lr = 0.5}, 99, 1), 0.5);
  // 2 passes of 3 batches, of one batch, of all samples at once
  const ClientOptions passes{.epochs = 2, .batch = 20, .lr = 2};
  EXPECT_DOUBLE_EQ(feedback_scale(passes, 1, 41), 1.0 / 24);
  EXPECT_DOUBLE_EQ(feedback_scale(passes, 1, 1), 1.0 / 8);
  EXPECT_DOUBLE_EQ(feedback_scale({.epochs = 2, .batch = 0, .lr = 2}, 1, 41), 1.0 / 8);
  // lr halves after every third round
  const ClientOptions falling{.steps = 1, .lr = 1, .lr_decay = 0.5, .lr_decay_every = 3};
  EXPECT_DOUBLE_EQ(feedback_scale(falling, 3, 5), 1);
  EXPECT_DOUBLE_EQ(feedback_scale(falling, 4, 5), 4);
  EXPECT_DOUBLE_EQ(feedback_scale(falling, 7, 5), 16);
}

TEST(FeedbackScale, IsOneForScaffoldAlone) {
  EXPECT_EQ(feedback_scale({.kind = "scaffold", .steps = 8, .lr = 0.1}, 5, 17), 1);
  EXPECT_DOUBLE_EQ(feedback_scale({.kind = "prox", .steps = 4, .lr = 0.5}, 5, 17), 1);
  EXPECT_DOUBLE_EQ(feedback_scale({.kind = "prox", .steps = 1, .lr = 0.5}, 5, 17), 4);
}

// F = (2 w - 6)^2 / 2, so g(0) = -12 in one step, and in two from y_1 = 1.2: g = -12, -7.2.
TEST(FeedbackScale, GivesBackTheGradientsNorm) {
  const auto comm = make_single_communicator();
  const Federation federation = make_federation(*comm, {Samples{{{2}}, {6}}});
  const auto model = make_model({.kind = "linear", .loss = "squared-error", .bias = false}, {1}, 0);
  const double expected[] = {12.0 * 12.0, 19.2 * 19.2 / 2};
  for (const int64_t steps : {1, 2}) {
    const ClientOptions options{.steps = steps, .lr = 0.1};
    std::vector<float> row{0};
    make_sgd(options, federation, *model)->train({.client = 0, .round = 1, .seed = 1, .row = row});
    const double moved = row[0];
    EXPECT_NEAR(feedback_scale(options, 1, 1) * moved * moved, expected[steps - 1], 1e-4);
  }
}

}  // namespace
}  // namespace hanse
