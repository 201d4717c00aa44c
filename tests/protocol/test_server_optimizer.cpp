#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

TEST(ServerSgd, StepsByTheRate) {
  const auto optimizer = make_server_optimizer({.optimizer = "sgd"}, 3);
  Row theta{1, 2, 3};
  optimizer->step(theta, Row{2, -4, 0}, 0.5);
  EXPECT_EQ(theta, (Row{2, 0, 3}));
  optimizer->step(theta, Row{2, -4, 0}, 0.5);
  EXPECT_EQ(theta, (Row{3, -2, 3}));
  State state;
  optimizer->save(state);
  EXPECT_TRUE(state.arrays().empty());
}

// After steps u1, u2, u3: theta = lr (u1 (1 + b + b^2) + u2 (1 + b) + u3).
TEST(ServerMomentum, KeepsItsVelocityAcrossRounds) {
  const ServerOptions options{.optimizer = "momentum", .beta = 0.25};
  const auto optimizer = make_server_optimizer(options, 2);
  Row theta{0, 10};
  optimizer->step(theta, Row{8, 0}, 0.5);
  optimizer->step(theta, Row{16, -8}, 0.5);
  optimizer->step(theta, Row{32, 0}, 0.5);
  EXPECT_EQ(theta, (Row{0.5F * (8 * 1.3125F + 16 * 1.25F + 32), 10 + 0.5F * (-8 * 1.25F)}));
}

TEST(ServerMomentum, GoesOnAfterLoadAsIfNothingHadHappened) {
  const ServerOptions options{.optimizer = "momentum", .beta = 0.9};
  const auto straight = make_server_optimizer(options, 2);
  Row theta{1, 2};
  straight->step(theta, Row{0.1F, 0.2F}, 0.3);
  State state;
  straight->save(state);
  const auto resumed = make_server_optimizer(options, 2);
  resumed->load(state);
  Row other = theta;
  straight->step(theta, Row{-0.3F, 0.7F}, 0.3);
  resumed->step(other, Row{-0.3F, 0.7F}, 0.3);
  EXPECT_EQ(theta, other);
  EXPECT_THROW(make_server_optimizer(options, 3)->load(state), IoError);
}

}  // namespace
}  // namespace hanse
