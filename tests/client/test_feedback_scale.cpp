#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/personal.hpp"
#include "hanse/client/updates.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

double scale_of(const ClientOptions& options, int64_t round, int64_t samples) {
  return RoundSteps(options).feedback_scale(round, samples);
}

// 1 / (lr^2 B)
TEST(FeedbackScale, CountsStepsAndTheRoundsRate) {
  EXPECT_DOUBLE_EQ(scale_of({{.steps = 1}, {.lr = 0.1}}, 1, 17), 100);
  EXPECT_DOUBLE_EQ(scale_of({{.steps = 8}, {.lr = 0.5}}, 1, 17), 0.5);
  EXPECT_DOUBLE_EQ(scale_of({{.steps = 8}, {.lr = 0.5}}, 99, 1), 0.5);
  // 2 passes of 3 batches, of one batch, of all samples at once
  const ClientOptions passes{{.epochs = 2, .batch = 20}, {.lr = 2}};
  EXPECT_DOUBLE_EQ(scale_of(passes, 1, 41), 1.0 / 24);
  EXPECT_DOUBLE_EQ(scale_of(passes, 1, 1), 1.0 / 8);
  EXPECT_DOUBLE_EQ(scale_of({{.epochs = 2, .batch = 0}, {.lr = 2}}, 1, 41), 1.0 / 8);
  // lr halves after every third round
  const ClientOptions falling{{.steps = 1}, {.lr = 1, .lr_decay = 0.5, .lr_decay_every = 3}};
  EXPECT_DOUBLE_EQ(scale_of(falling, 3, 5), 1);
  EXPECT_DOUBLE_EQ(scale_of(falling, 4, 5), 4);
  EXPECT_DOUBLE_EQ(scale_of(falling, 7, 5), 16);
}

// Also where a part of the model stays with the client.
TEST(FeedbackScale, IsOneForScaffoldAlone) {
  const auto comm = make_single_communicator();
  const Federation federation = make_federation(*comm, {Samples{{{2}}, {6}}});
  const auto model = make_model({.kind = "linear", .loss = "squared-error"}, {1}, 0);
  const ClientOptions options{{.steps = 4}, {.lr = 0.25}};
  const auto scale = [](std::unique_ptr<LocalUpdate> update, bool personal = false) {
    if (personal) update = make_personal(std::move(update), {{1, 2}});
    return update->feedback_scale(5, 17);
  };
  EXPECT_EQ(scale(make_scaffold(options, federation, *model)), 1);
  EXPECT_EQ(scale(make_scaffold(options, federation, *model), true), 1);
  EXPECT_DOUBLE_EQ(scale(make_prox(options, federation, *model)), 4);
  EXPECT_DOUBLE_EQ(scale(make_sgd(options, federation, *model), true), 4);
}

// F = (2 w - 6)^2 / 2, so g(0) = -12 in one step, and in two from y_1 = 1.2: g = -12, -7.2.
TEST(FeedbackScale, GivesBackTheGradientsNorm) {
  const auto comm = make_single_communicator();
  const Federation federation = make_federation(*comm, {Samples{{{2}}, {6}}});
  const auto model = make_model({.kind = "linear", .loss = "squared-error", .bias = false}, {1}, 0);
  const double expected[] = {12.0 * 12.0, 19.2 * 19.2 / 2};
  for (const int64_t steps : {1, 2}) {
    const ClientOptions options{{.steps = steps}, {.lr = 0.1}};
    std::vector<float> row{0};
    make_sgd(options, federation, *model)->train({.client = 0, .round = 1, .seed = 1, .row = row});
    const double moved = row[0];
    EXPECT_NEAR(scale_of(options, 1, 1) * moved * moved, expected[steps - 1], 1e-4);
  }
}

}  // namespace
}  // namespace hanse
