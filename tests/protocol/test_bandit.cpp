#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "protocol/bandit/bandit_run.hpp"
#include "protocol/bandit_ranks.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Played on_threads(int ranks, const BanditSetup& setup, int64_t rounds) {
  Played played;
  run_threads(ranks, [&](Communicator& comm) {
    Played mine = play_on(comm, setup, rounds);
    if (comm.rank() == 0) played = std::move(mine);
  });
  return played;
}

class Speculation : public testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Bandit, Speculation, testing::Values(0.0, 0.3, 2.0, 15.0, kNever));

// The turns told at once and again are those of Algorithm 1 in order: seven clients on 1 to 4
// ranks, two on more ranks than clients.
TEST_P(Speculation, IsTheSequentialOneArmForArm) {
  const UcbOptions ucb{.lambda = 0.4, .gamma = GetParam(), .sigma = 0.3};
  for (const int64_t clients : {7, 2}) {
    const TestBandit bandit = stream_bandit(clients, 15, 9, 5);
    const Play expected = play_literally(bandit, ucb);
    const double best = *std::max_element(bandit.values.begin(), bandit.values.end());
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const Played found = on_threads(ranks, setup_of(bandit, ucb), 15);
      std::vector<double> regret(static_cast<std::size_t>(clients));
      std::size_t syncs = 0;
      for (int64_t t = 0; t < 15; ++t) {
        for (int64_t c = 0; c < clients; ++c) {
          const auto step = static_cast<std::size_t>(t * clients + c);
          const auto arm = static_cast<std::size_t>(expected.picks[step]);
          regret[static_cast<std::size_t>(c)] += best - bandit.values[arm];
          EXPECT_NEAR(found.regret_of[static_cast<std::size_t>(t)][static_cast<std::size_t>(c)],
                      regret[static_cast<std::size_t>(c)], 1e-9)
              << ranks << " ranks, step " << step + 1;
          while (syncs < expected.syncs.size() &&
                 expected.syncs[syncs] <= static_cast<int64_t>(step) + 1) {
            ++syncs;
          }
        }
        EXPECT_EQ(found.syncs[static_cast<std::size_t>(t)], static_cast<double>(syncs));
      }
      EXPECT_EQ(found.replayed == 0, ranks == 1 || expected.syncs.empty()) << ranks;
    }
  }
}

// Bits, not only arms: the fit, the statistics, the centre.
TEST_P(Speculation, SameBitsOnAnyNumberOfRanks) {
  for (const auto statistics : {AskedStatistics::kPacked, AskedStatistics::kPerArm}) {
    const BanditSetup setup = network_setup(GetParam(), statistics);
    const Played alone = on_threads(1, setup, 12);
    EXPECT_EQ(alone.row.size(), 33U);
    for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(on_threads(ranks, setup, 12), alone);
  }
}

TEST(Bandit, BothFormsOfStatisticsPlayTheSame) {
  for (const double gamma : {0.0, 1.0, kNever}) {
    const Played packed = on_threads(2, network_setup(gamma, AskedStatistics::kPacked), 20);
    const Played per_arm = on_threads(2, network_setup(gamma, AskedStatistics::kPerArm), 20);
    EXPECT_EQ(packed.regret_of, per_arm.regret_of);
    EXPECT_EQ(packed.syncs, per_arm.syncs);
  }
}

TEST(Bandit, EveryModelHasTheSameBitsOnAnyNumberOfRanks) {
  for (const BanditSetup& setup : setups_of_models()) {
    const Played alone = on_threads(1, setup, 12);
    EXPECT_EQ(alone.syncs.back() > 0, !setup.own_models);
    for (int ranks = 2; ranks <= 4; ++ranks) EXPECT_EQ(on_threads(ranks, setup, 12), alone);
  }
}

TEST(Bandit, GoesOnFromItsStateOnOtherRanks) {
  auto setups = setups_of_models();
  for (const UpperBound optimism : all_of<UpperBound>()) {
    setups.push_back(network_setup(0.8, AskedStatistics::kAuto));
    setups.back().optimism = optimism;
  }
  for (const BanditSetup& setup : setups) {
    const Played whole = on_threads(1, setup, 14);
    State state;
    Played parts;
    run_threads(3, [&](Communicator& comm) {
      BanditProtocol protocol({setup, setup}, comm);
      protocol.initialize_model();
      Played played;
      play_on(protocol, 5, comm, played);
      if (comm.rank() != 0) return;
      protocol.save(state);
      parts = std::move(played);
    });
    run_threads(2, [&](Communicator& comm) {
      BanditProtocol protocol({setup, setup}, comm);
      protocol.resume(comm.rank() == 0 ? state : State());
      EXPECT_EQ(protocol.completed_rounds(), 5);
      play_on(protocol, 9, comm, parts);
    });
    parts.row.resize(parts.row.size() / 2);  // both repeats are this bandit
    EXPECT_EQ(parts.regret_of, whole.regret_of) << static_cast<int>(setup.model);
    EXPECT_EQ(parts.syncs, whole.syncs);
    EXPECT_EQ(parts.row, whole.row);
  }
}

// Algorithm 2 in one loop over all pulls, next to the sums by clients and ranks.
TEST(Oracle, IsGradientLangevinDescent) {
  const RewardNetwork network(2, 3);
  const OracleOptions options{
      .hidden = 3, .spread = 0.7, .steps = 40, .step = 0.05, .temperature = 1e3};
  std::vector<Exploration> clients(5);
  RandomStream data(1, Purpose::kArms);
  for (int64_t t = 0; t < 8; ++t) {  // the last client has one pull, the others two or one
    Exploration& client = clients[static_cast<std::size_t>(t % 5)];
    client.points.push_back(data.uniform());
    client.points.push_back(data.uniform());
    client.rewards.push_back(data.normal());
  }
  std::vector<double> w(13), gradient(13), sum(13);
  double loss = 0;
  RandomStream start(9, Purpose::kLangevin);
  for (double& value : w) value = 0.7 * start.normal();
  for (uint64_t k = 1; k <= 40; ++k) {
    sum.assign(13, 0);
    loss = 0;
    for (const auto& client : clients) {
      for (std::size_t s = 0; s < client.rewards.size(); ++s) {
        const double f = network.gradient(std::span(client.points).subspan(2 * s, 2), w, gradient);
        loss += (f - client.rewards[s]) * (f - client.rewards[s]) / 8;
        for (std::size_t i = 0; i < 13; ++i) {
          sum[i] += 2.0 / 8 * (f - client.rewards[s]) * gradient[i];
        }
      }
    }
    RandomStream noise(9, Purpose::kLangevin, k);
    for (std::size_t i = 0; i < 13; ++i) {
      w[i] = w[i] - 0.05 * sum[i] + std::sqrt(2 * 0.05 / 1e3) * noise.normal();
    }
  }
  std::vector<double> alone;
  for (int ranks = 1; ranks <= 3; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      std::vector<Exploration> mine;
      for (std::size_t c = 0; c < 5; ++c) {
        if (static_cast<int>(c) % comm.size() == comm.rank()) mine.push_back(clients[c]);
      }
      const auto found = fit_network(network, mine, 8, options, {.seed = 9}, comm);
      if (comm.rank() != 0) return;
      for (std::size_t i = 0; i < 13; ++i) EXPECT_NEAR(found.w[i], w[i], 1e-8);
      EXPECT_NEAR(found.loss, loss, 1e-8);
      if (ranks == 1) alone = found.w;
      EXPECT_EQ(found.w, alone);
    });
  }
}

TEST(Oracle, AFitThatDivergesIsRefusedOnAllRanks) {
  BanditSetup setup = network_setup(1, AskedStatistics::kAuto);
  setup.oracle.step = 1e6;
  int refused = 0;
  run_threads(1, [&](Communicator& comm) {
    BanditProtocol protocol({setup}, comm);
    try {
      protocol.initialize_model();
    } catch (const AgreedError& error) {
      expect_parts(error.what(), {"diverges in step", "bandit.step"});
      EXPECT_EQ(error.exit_status(), ExitStatus::kBadInput);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 1);
}

// Each client of its own models starts from what it saw alone, and no number travels for it.
TEST(Bandit, OwnModelsAreFittedAlone) {
  BanditSetup setup = setups_of_models().front();
  setup.clients = 2;
  run_threads(2, [&](Communicator& comm) {
    BanditProtocol protocol({setup}, comm);
    protocol.initialize_model();
    protocol.collect();
    if (comm.rank() != 0) return;
    EXPECT_EQ(metric(protocol, "scalars_explore"), 0);
    EXPECT_EQ(protocol.model_layout().n_params(), 2 * 33);
    // Steps t = 1, 3, ... of the first phase are client 0's, the others client 1's.
    std::vector<Exploration> seen(2);
    RandomStream arms(setup.seed, Purpose::kExploration), noise(setup.seed, Purpose::kReward);
    for (std::size_t t = 0; t < 11; ++t) {
      const int64_t arm = arms.below(12);
      const auto x = setup.arms.points.begin() + 6 * arm;
      seen[t % 2].points.insert(seen[t % 2].points.end(), x, x + 6);
      seen[t % 2].rewards.push_back(setup.arms.values[static_cast<std::size_t>(arm)] +
                                    0.1 * noise.normal());
    }
    double loss = 0;
    for (int64_t c = 0; c < 2; ++c) {
      const auto one = std::span(seen).subspan(static_cast<std::size_t>(c), 1);
      const auto pulls = std::ssize(one[0].rewards);
      const auto fit =
          fit_network(RewardNetwork(6, 4), one, pulls, setup.oracle,
                      {.seed = setup.seed, .client = c + 1}, *make_single_communicator());
      loss += fit.loss * static_cast<double>(pulls) / 11;
      for (std::size_t i = 0; i < 33; ++i) {
        EXPECT_EQ(protocol.model_row()[static_cast<std::size_t>(33 * c) + i],
                  static_cast<float>(fit.w[i]));
      }
    }
    EXPECT_DOUBLE_EQ(metric(protocol, "fit_loss"), loss);
  });
}

// Liu and Wang's sums with every gradient at the estimate before its pull, each pull synchronized.
TEST(Bandit, RunningGradientsAreThoseOfTheRunningEstimate) {
  BanditSetup setup = network_setup(0, AskedStatistics::kAuto);
  setup.running = true;
  setup.noise = 0;
  setup.oracle.steps = 0;
  setup.ucb.sqrt_beta = 0.3;
  using Vector = Eigen::VectorXd;
  const RewardNetwork network(6, 4);
  Vector w0(33), g(33);
  RandomStream start(setup.seed, Purpose::kLangevin);
  for (double& value : w0) value = setup.oracle.spread * start.normal();
  Vector w = w0, b = Vector::Zero(33);
  Eigen::MatrixXd sigma = setup.ucb.lambda * Eigen::MatrixXd::Identity(33, 33);
  const auto look = [&](std::size_t arm) {
    return network.gradient(std::span(setup.arms.points).subspan(6 * arm, 6), {w.data(), 33},
                            {g.data(), 33});
  };
  std::vector<double> regret(7);
  const double best = *std::max_element(setup.arms.values.begin(), setup.arms.values.end());
  for (std::size_t t = 0; t < 7 * 6; ++t) {
    const Eigen::MatrixXd inverse = sigma.fullPivLu().inverse();
    std::size_t arm = 0;
    double most = -INFINITY;
    for (std::size_t a = 0; a < 12; ++a) {
      const double value = look(a);
      const double bound = value + 0.3 * std::sqrt(g.dot(inverse * g));
      if (bound > most) most = bound, arm = a;
    }
    const double y = setup.arms.values[arm];
    const double value = look(arm);
    sigma += g * g.transpose();
    b += g * (g.dot(w) + y - value);
    w = sigma.fullPivLu().solve(b + setup.ucb.lambda * w0);
    regret[t % 7] += best - y;
  }
  const Played found = on_threads(2, setup, 6);
  for (std::size_t c = 0; c < 7; ++c) EXPECT_NEAR(found.regret_of.back()[c], regret[c], 1e-9);
  for (std::size_t i = 0; i < 33; ++i) {
    EXPECT_NEAR(found.row[i], w[static_cast<Eigen::Index>(i)], 1e-4);
  }
  EXPECT_EQ(found.syncs.back(), 42);
}

// Uniform over the pulls of the second phase.
TEST(Bandit, ReturnsAnArmThatWasPulled) {
  BanditSetup setup = setup_of(stream_bandit(7, 15, 9, 5), {.lambda = 0.4, .gamma = 2});
  std::vector<double> times(9);
  for (setup.seed = 1; setup.seed <= 40; ++setup.seed) {
    run_threads(2, [&](Communicator& comm) {
      BanditProtocol protocol({setup}, comm);
      protocol.initialize_model();
      for (int64_t t = 0; t < 3; ++t) protocol.round(false);
      if (comm.rank() != 0) return;
      const auto returned = protocol.returned();
      ASSERT_EQ(returned.size(), 1U);
      const auto arm = static_cast<std::size_t>(returned[0].arm);
      EXPECT_EQ(returned[0].value, setup.arms.values[arm]);
      EXPECT_TRUE(std::equal(returned[0].point.begin(), returned[0].point.end(),
                             setup.arms.points.begin() + static_cast<int64_t>(5 * arm)));
      ++times[arm];
      // A pull of it is one of those that the regret sums up.
      double regret = 0;
      for (const auto& client : protocol.evaluate()) regret += client.loss * client.samples;
      const double best = *std::max_element(setup.arms.values.begin(), setup.arms.values.end());
      EXPECT_LE(best - returned[0].value, regret + 1e-9);
    });
  }
  EXPECT_GT(std::count_if(times.begin(), times.end(), [](double n) { return n > 0; }), 1);
}

// What is learnt is scaled; regret is not.
TEST(Bandit, ScaledRewardsAreLearntAsTheyWouldBeUnscaled) {
  BanditSetup plain = setups_of_models()[2];
  ASSERT_EQ(plain.model, RewardModel::kLogistic);
  plain.scale = {};
  for (std::size_t a = 0; a < 12; ++a) plain.arms.values[a] = static_cast<double>(a % 5) / 4;
  BanditSetup scaled = plain;
  scaled.scale = {.low = -3, .span = 4};
  scaled.noise = 4 * plain.noise;
  for (double& value : scaled.arms.values) value = 4 * value - 3;
  const Played one = on_threads(1, plain, 15), other = on_threads(2, scaled, 15);
  EXPECT_EQ(one.syncs, other.syncs);
  EXPECT_GT(one.regret_of.back()[0], 0);
  for (std::size_t c = 0; c < 7; ++c) {
    EXPECT_NEAR(other.regret_of.back()[c], 4 * one.regret_of.back()[c], 1e-9);
  }
}

// 2 N (d^2 + d) a synchronization, 2 n N d_w in the first phase (section 3 and 5.1).
TEST(Bandit, CountsScalarsAsThePaperDoes) {
  run_threads(2, [](Communicator& comm) {
    BanditProtocol protocol({network_setup(0, AskedStatistics::kAuto)}, comm);
    protocol.initialize_model();
    protocol.round(false);
    if (comm.rank() != 0) return;
    EXPECT_EQ(metric(protocol, "syncs"), 7);
    EXPECT_EQ(metric(protocol, "scalars_sent"), 7.0 * 2 * 7 * (33 * 33 + 33));
    EXPECT_EQ(metric(protocol, "scalars_explore"), 2.0 * 60 * 7 * 33);
    const auto tables = protocol.take_lines();
    ASSERT_EQ(tables.size(), 1U);
    EXPECT_EQ(tables[0].file, "bandit.csv");
    EXPECT_EQ(tables[0].lines.substr(0, 4), "1,0,");
    EXPECT_TRUE(protocol.take_lines().empty());
  });
}

}  // namespace
}  // namespace hanse
