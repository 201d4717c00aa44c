// Options of a bandit's first phase.
#pragma once

#include <cstdint>

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

}  // namespace hanse
