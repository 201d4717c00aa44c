// Ditto: the shared part is SGD's, the own model follows Algorithm 1.
#include <cmath>

#include <gtest/gtest.h>

#include "client/regression.hpp"
#include "hanse/client/updates.hpp"

namespace hanse {
namespace {

TEST(Ditto, RowIsThatOfSgdBitForBit) {
  const Regression r(random_clients());
  ClientOptions options{{.epochs = 3, .batch = 2},
                        {.lr = 0.05, .momentum = 0.5, .weight_decay = 0.1},
                        {.kind = "sgd"}};
  const auto sgd = make_sgd(options, r.federation, *r.model);
  options.kind = "ditto";
  const auto ditto = make_ditto(options, r.federation, *r.model);
  EXPECT_EQ(ditto->state_width(), 4);
  EXPECT_EQ(ditto->control_width(), 0);
  OneRound mine({1, -2, 0.5}, 4);
  for (int64_t round = 1; round <= 3; ++round) {  // with and without an own model there
    OneRound plain(mine.row);
    mine.train(*ditto, 0, round);
    plain.train(*sgd, 0, round);
    EXPECT_EQ(mine.row, plain.row);
    EXPECT_EQ(mine.outcome.loss, plain.outcome.loss);
    EXPECT_EQ(mine.outcome.samples, plain.outcome.samples);
  }
}

// v <- v - lr (grad F(v) + wd v + lambda (v - w)) from the first w received, over three rounds.
TEST(Ditto, OwnModelFollowsAlgorithm1) {
  const Regression r(random_clients());
  const ClientOptions options{{.steps = 4, .batch = 0},
                              {.lr = 0.08, .lr_decay = 0.5, .weight_decay = 0.2},
                              {.kind = "ditto", .lambda = 0.7}};
  const auto ditto = make_ditto(options, r.federation, *r.model);
  const Row received[] = {{1, -2, 0.5}, {0, 3, -1}, {-2, 0.25, 4}};
  for (std::size_t client = 0; client < r.clients.size(); ++client) {
    Numbers v(received[0].begin(), received[0].end());
    Row state(4);
    for (int64_t round = 1; round <= 3; ++round) {
      const Row& w = received[round - 1];
      OneRound mine(w, 4);
      mine.state = state;
      mine.train(*ditto, static_cast<int64_t>(client), round);
      state = mine.state;
      Numbers gradient;
      for (int step = 0; step < 4; ++step) {
        r.loss_and_gradient(client, v, gradient);
        for (std::size_t j = 0; j < v.size(); ++j) {
          v[j] -= 0.08 * std::pow(0.5, static_cast<double>(round - 1)) *
                  (gradient[j] + 0.2 * v[j] + 0.7 * (v[j] - static_cast<double>(w[j])));
        }
      }
      expect_close({state.begin(), state.begin() + 3}, v, 1e-5);
      EXPECT_EQ(state[3], 1);
    }
    OneRound asks({9, 9, 9}, 4);
    asks.state = state;
    ditto->own_model(asks.task(static_cast<int64_t>(client), 4));
    expect_close(asks.row, v, 1e-5);
    EXPECT_EQ(asks.state, state);
  }
}

TEST(Ditto, OwnModelOfANewcomerIsTheReceivedOne) {
  const Regression r(random_clients());
  const auto ditto = make_ditto({{}, {}, {.kind = "ditto"}}, r.federation, *r.model);
  OneRound newcomer({5, 6, 7}, 4);
  ditto->own_model(newcomer.task(1, 3));
  EXPECT_EQ(newcomer.row, (Row{5, 6, 7}));
  Row row{5, 6, 7};
  newcomer.state = {1, 2, 3, 1};
  ditto->receive(newcomer.state, row);
  EXPECT_EQ(row, (Row{5, 6, 7}));  // training starts from the shared model
}

// Without a pull the own model's first round is SGD on the same mini-batches.
TEST(Ditto, OwnModelSeesTheBatchesOfTheShared) {
  const Regression r(random_clients());
  const ClientOptions options{
      {.epochs = 2, .batch = 2}, {.lr = 0.05}, {.kind = "ditto", .lambda = 0}};
  OneRound mine({1, -2, 0.5}, 4);
  mine.train(*make_ditto(options, r.federation, *r.model), 2);
  expect_close({mine.state.begin(), mine.state.begin() + 3},
               Numbers(mine.row.begin(), mine.row.end()), 1e-5);
}

// The shared row is fine, the own model is lost: the round must not pass for a good one.
TEST(Ditto, TellsOfAnOwnModelThatDiverges) {
  const Regression r(random_clients());
  const ClientOptions options{
      {.steps = 30, .batch = 0}, {.lr = 0.05}, {.kind = "ditto", .lambda = 1e12}};
  OneRound mine({1, -2, 0.5}, 4);
  mine.train(*make_ditto(options, r.federation, *r.model), 0);
  for (const float value : mine.row) EXPECT_TRUE(std::isfinite(value));
  EXPECT_FALSE(std::isfinite(mine.outcome.loss));
}

}  // namespace
}  // namespace hanse
