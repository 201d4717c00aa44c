// What one bandit is made of.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/rules/bandit/linear.hpp"
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

// One bandit. The rewards of arm x are its value and normal noise of deviation `noise`.
struct BanditSetup {
  Arms arms;
  UcbOptions ucb;
  std::string optimism = "linear";  // linear | network-mean | ellipsoid
  std::string statistics = "auto";  // auto | packed | per-arm
  bool network = true;              // fit a network first; false: an arm's feature is its point
  int64_t clients = 1;              // N
  int64_t exploration = 0;          // T0, uniform pulls of the first phase
  OracleOptions oracle;             // counts when network is set
  double noise = 0.1;
  uint64_t seed = 1;
};

}  // namespace hanse
