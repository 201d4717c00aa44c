// Bandits played on any communicator, for tests on threads and on processes.
#pragma once

#include <limits>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/bandit.hpp"
#include "rules/bandit/reference.hpp"

namespace hanse {

// What rank 0 tells of a bandit after each round.
struct Played {
  std::vector<std::vector<double>> regret_of;  // [rounds][clients], cumulative
  std::vector<double> syncs;                   // [rounds], cumulative
  double replayed = 0;
  std::vector<float> row;
  bool operator==(const Played& other) const {  // the replayed turns depend on the ranks
    return regret_of == other.regret_of && syncs == other.syncs && row == other.row;
  }
};

inline double metric(const BanditProtocol& protocol, const std::string& name) {
  for (const auto& [found, value] : protocol.metrics()) {
    if (found == name) return value;
  }
  return -1;
}

inline void play_on(BanditProtocol& protocol, int64_t rounds, Communicator& comm, Played& played) {
  for (int64_t t = 0; t < rounds; ++t) {
    protocol.round(false);
    const auto clients = protocol.evaluate();
    if (comm.rank() != 0) continue;
    played.regret_of.emplace_back();
    for (const auto& client : clients) {
      played.regret_of.back().push_back(client.loss * client.samples);
    }
    played.syncs.push_back(metric(protocol, "syncs"));
  }
  protocol.collect();
  if (comm.rank() == 0) {
    played.replayed = metric(protocol, "replayed");
    played.row.assign(protocol.model_row().begin(), protocol.model_row().end());
  }
}

inline Played play_on(Communicator& comm, const BanditSetup& setup, int64_t rounds) {
  BanditProtocol protocol({setup}, comm);
  protocol.initialize_model();
  Played played;
  play_on(protocol, rounds, comm, played);
  return played;
}

// A bandit of the arms' own features and of noise from its streams, for both sides of a comparison.
inline BanditSetup setup_of(const TestBandit& bandit, const UcbOptions& ucb) {
  return {.arms = {.inputs = bandit.dimension, .points = bandit.features, .values = bandit.values},
          .ucb = ucb,
          .model = RewardModel::kPoints,
          .clients = bandit.clients,
          .noise = 0.3,
          .seed = 17};
}

inline TestBandit stream_bandit(int64_t clients, int64_t rounds, int64_t arms, int64_t dimension) {
  TestBandit bandit = random_bandit(clients, rounds, arms, dimension, 31);
  bandit.base.assign(bandit.base.size(), 0.0);
  for (std::size_t i = 0; i < bandit.noise.size(); ++i) {
    const auto n = static_cast<std::size_t>(clients);
    RandomStream noise(17, Purpose::kReward, i / n + 1, i % n);
    bandit.noise[i] = 0.3 * noise.normal();
  }
  return bandit;
}

// The fit of a network and a second phase on it.
inline BanditSetup network_setup(double gamma, AskedStatistics statistics) {
  return {.arms = draw_arms(ArmSource::kHartmann6, 12, 6, true, 3),
          .ucb = {.lambda = 0.05, .gamma = gamma},
          .statistics = statistics,
          .clients = 7,
          .exploration = 11,
          .oracle = {.hidden = 4, .steps = 60},
          .seed = 3};
}

// A bandit of each way to learn, beside one network that is linearised once.
inline std::vector<BanditSetup> setups_of_models() {
  std::vector<BanditSetup> setups(5, network_setup(0.8, AskedStatistics::kAuto));
  setups[0].own_models = true;
  setups[0].ucb.gamma = std::numeric_limits<double>::infinity();
  setups[1].running = true;
  for (std::size_t i = 2; i < setups.size(); ++i) {
    setups[i].model = std::vector{RewardModel::kLogistic, RewardModel::kKernel,
                                  RewardModel::kKernelOfPoints}[i - 2];
    setups[i].kernel = {.length = 0.5, .inclusion = 0.02};
    setups[i].ucb.width = 0.2;
  }
  setups[2].scale = {.low = 0.5, .span = 2};
  return setups;
}

}  // namespace hanse
