// The parts of one bandit, and the rule by which its clients learn.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "hanse/rules/bandit/confidence.hpp"
#include "hanse/rules/bandit/kernel.hpp"
#include "hanse/rules/bandit/linear.hpp"
#include "hanse/rules/bandit/policy.hpp"
#include "hanse/rules/bandit/problem.hpp"

namespace hanse {

// Distributed gradient Langevin descent (Algorithm 2): w <- w - step grad L + sqrt(2 step /
// temperature) N(0, I), L the mean squared error of the first phase's rewards.
struct OracleOptions {
  int64_t hidden = 25;       // units of the network, >= 1
  double spread = 2;         // deviation of the start, > 0: from 0 all hidden units would stay tied
  int64_t steps = 1000;      // >= 0
  double step = 0.01;        // tau_1, > 0
  double temperature = 1e7;  // tau_2, inverse: large for little noise, > 0
};

// The model by which clients estimate the mean reward of an arm.
enum class RewardModel {
  kNetwork,        // a network, fitted in a first phase and then linearised
  kPoints,         // linear in the arms' points
  kLogistic,       // logistic in the points
  kKernel,         // a kernel's, over all data
  kKernelOfPoints  // a kernel's, over a dictionary of points
};

// Upper bound of a network's arm: the linearised network's; the network's value at the centre plus
// the width; the network's largest value found in the set.
enum class UpperBound { kLinear, kNetworkMean, kEllipsoid };
constexpr auto choices_of(UpperBound) { return std::array{"linear", "network-mean", "ellipsoid"}; }

// The clients of a bandit learn from (reward - low) / span.
struct RewardScale {
  double low = 0;
  double span = 1;
};

// One bandit. The rewards of arm x are its value plus normal noise of deviation `noise`.
struct BanditSetup {
  Arms arms;
  UcbOptions ucb;
  UpperBound optimism = UpperBound::kLinear;
  AskedStatistics statistics = AskedStatistics::kAuto;
  RewardModel model = RewardModel::kNetwork;
  bool own_models = false;  // network: one a client, fitted on its own pulls
  bool running = false;     // network: gradients at the running estimate, not at w0
  KernelOptions kernel = {};
  RewardScale scale = {};
  int64_t clients = 1;      // N
  int64_t exploration = 0;  // T0, uniform pulls of the first phase
  OracleOptions oracle;     // counts when network is set
  double noise = 0.1;
  uint64_t seed = 1;
};

// d: parameters of the network; without a network, numbers of a point.
int64_t dimension_of(const BanditSetup& setup);

// Numbers of a client's statistics.
int64_t row_width_of(const BanditSetup& setup);

// Networks that are fitted: none, one, or one a client.
int64_t networks_of(const BanditSetup& setup);

// `w0` [networks, d]: where the networks start the second phase. REQUIRES: `setup` outlives the
// policy of a network.
std::unique_ptr<BanditPolicy> make_policy(const BanditSetup& setup, std::span<const double> w0);

}  // namespace hanse
