#include <gtest/gtest.h>

#include "hanse/model/model.hpp"
#include "hanse/protocol/worker_momentum.hpp"

namespace hanse {
namespace {

TEST(WorkerMomentum, ClientsSendAMeanThatForgets) {
  const auto model = make_model({.kind = "linear", .loss = "squared-error", .bias = false}, {3}, 0);
  const ParameterLayout& layout = model->layout();
  EXPECT_EQ(make_worker_momentum(0, layout), nullptr);
  const auto stage = make_worker_momentum(0.75, layout);
  ASSERT_EQ(width_of(stage->state_blocks()), 3);
  std::vector<float> state(3, 0), other(3, 0);
  const auto send = [&](std::vector<float>& own, std::vector<float> row) {
    stage->apply({.client = 0, .round = 1, .seed = 1, .update = row, .state = own});
    return row;
  };
  EXPECT_EQ(send(state, {4, -8, 0}), (std::vector<float>{1, -2, 0}));
  EXPECT_EQ(send(other, {8, 8, 8}), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(send(state, {0, 2, 16}), (std::vector<float>{0.75, -1, 4}));
  EXPECT_EQ(state, (std::vector<float>{0.75, -1, 4}));
}

}  // namespace
}  // namespace hanse
