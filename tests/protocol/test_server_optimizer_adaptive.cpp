#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

// One entry of algorithm 2 of Reddi et al., in double precision.
struct Entry {
  double theta;
  double m;
  double v;
};

struct Rule {
  std::string name;
  std::function<double(double v, double u, double beta2)> moment;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"adagrad", [](double v, double u, double) { return v + u * u; }},
      {"adam", [](double v, double u, double beta2) { return beta2 * v + (1 - beta2) * u * u; }},
      {"yogi",
       [](double v, double u, double beta2) {
         if (v == u * u) return v;
         return v - (1 - beta2) * u * u * (v > u * u ? 1 : -1);
       }},
  };
  return all;
}

// Large after small, small after large, 0, and signs that change.
const std::vector<Row> kUpdates{{0.5F, -2, 0, 1e-3F},
                                {0.5F, 0.01F, 0, -1e-3F},
                                {-0.25F, 0.5F, 0, 0.5F},
                                {4, -0.01F, 0, -1e-4F},
                                {0, 1, 0, 0}};

TEST(ServerAdaptive, StepsByTheirFormulas) {
  for (const Rule& rule : rules()) {
    const ServerOptions options{
        .optimizer = rule.name, .lr = 0.1, .beta = 0.8, .beta2 = 0.95, .tau = 0.02};
    const auto optimizer = make_server_optimizer(options, 4);
    Row theta{1, -2, 3, 0.5F};
    std::vector<Entry> expected;
    for (const float start : theta) expected.push_back({start, 0, options.tau * options.tau});
    double lr = 0.1;
    for (const Row& update : kUpdates) {
      optimizer->step(theta, update, lr);
      for (std::size_t i = 0; i < 4; ++i) {
        Entry& e = expected[i];
        const auto u = static_cast<double>(update[i]);
        e.m = 0.8 * e.m + (1 - 0.8) * u;
        e.v = rule.moment(e.v, u, 0.95);
        e.theta += lr * e.m / (std::sqrt(e.v) + options.tau);
        EXPECT_NEAR(theta[i], e.theta, 2e-6) << rule.name << " entry " << i;
      }
      lr *= 0.5;
    }
    EXPECT_EQ(theta[2], 3) << rule.name;  // no update, no step
  }
}

// The first step by hand: m = u/5, v = tau^2 + ..., without bias correction.
TEST(ServerAdaptive, FirstStepHasNoBiasCorrection) {
  const double tau = 0.5;
  const auto first = [&](const std::string& name) {
    const ServerOptions options{.optimizer = name, .beta = 0.8, .beta2 = 0.75, .tau = tau};
    Row theta{0};
    make_server_optimizer(options, 1)->step(theta, Row{3}, 2);
    return static_cast<double>(theta[0]);
  };
  EXPECT_NEAR(first("adagrad"), 2 * 0.6 / (std::sqrt(0.25 + 9) + tau), 1e-6);
  EXPECT_NEAR(first("adam"), 2 * 0.6 / (std::sqrt(0.75 * 0.25 + 0.25 * 9) + tau), 1e-6);
  EXPECT_NEAR(first("yogi"), 2 * 0.6 / (std::sqrt(0.25 + 0.25 * 9) + tau), 1e-6);
}

TEST(ServerAdaptive, GoesOnAfterLoadBitForBit) {
  for (const Rule& rule : rules()) {
    const ServerOptions options{.optimizer = rule.name, .beta = 0.7, .beta2 = 0.9, .tau = 0.01};
    const auto straight = make_server_optimizer(options, 4);
    Row theta{1, 2, 3, 4};
    for (std::size_t t = 0; t < 3; ++t) straight->step(theta, kUpdates[t], 0.3);
    State state;
    straight->save(state);
    const auto resumed = make_server_optimizer(options, 4);
    resumed->load(state);
    Row other = theta;
    for (std::size_t t = 3; t < 5; ++t) {
      straight->step(theta, kUpdates[t], 0.3);
      resumed->step(other, kUpdates[t], 0.3);
      EXPECT_EQ(other, theta) << rule.name;
    }
    Row fresh = theta;
    make_server_optimizer(options, 4)->step(fresh, kUpdates[4], 0.3);
    straight->step(theta, kUpdates[4], 0.3);
    EXPECT_NE(fresh, theta) << rule.name << " has no memory";
    EXPECT_THROW(make_server_optimizer(options, 5)->load(state), IoError);
  }
}

TEST(ServerRate, DecaysEverySoManyRounds) {
  const ServerOptions options{.lr = 0.8, .lr_decay = 0.5, .lr_decay_every = 3};
  const double expected[] = {0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2};
  for (int64_t round = 1; round <= 7; ++round) {
    EXPECT_DOUBLE_EQ(server_rate(options, round), expected[round - 1]) << round;
  }
  EXPECT_EQ(server_rate({.lr = 0.8}, 1000), 0.8);
  // It may grow: the published AAggFF runs divide it by the clients' decay.
  EXPECT_NEAR(server_rate({.lr = 1, .lr_decay = 1 / 0.99, .lr_decay_every = 10}, 100), 1.0947,
              1e-4);
}

}  // namespace
}  // namespace hanse
