// What one bandit is made of.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/protocol/bandit_options.hpp"
#include "hanse/rules/bandit/client.hpp"
#include "hanse/rules/bandit/problem.hpp"

namespace hanse {

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
