// The regression oracle of Fed-GO-UCB's first phase.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/bandit_setup.hpp"
#include "hanse/rules/bandit/network.hpp"

namespace hanse {

// What one client saw in the first phase.
struct Exploration {
  std::vector<double> points;   // [pulls, inputs]
  std::vector<double> rewards;  // [pulls]
};

struct NetworkFit {
  std::vector<double> w;  // w0
  double loss = 0;        // mean squared error before the last step; 0 without steps
};

// The random numbers of a fit: those of `client`, counted from 1, or of all together.
struct OracleStream {
  uint64_t seed = 0;
  int64_t client = 0;
};

// w0, on every rank: gradient Langevin descent (Algorithm 2) on the mean squared error over all
// ranks' clients, `pulls` of them in all, from N(0, spread^2). `clients` are this rank's.
// Each client's gradient and loss are rounded once to multiples of 2^-36 and summed as integers by
// all-reduce: w0 has the same bits on any number of ranks. Noise and start are drawn on every rank
// from one stream. Collective; throws InvalidArgument on all ranks when a gradient leaves 2^26 /
// pulls. Cost a step: `pulls` gradients, and one all-reduce of d_w + 2 integers.
NetworkFit fit_network(const RewardNetwork& network, std::span<const Exploration> clients,
                       int64_t pulls, const OracleOptions& options, const OracleStream& stream,
                       Communicator& comm);

}  // namespace hanse
