// How much each of N nodes trusts each other node's model (Kesanapalli and Bharath 2021: Fed-Exp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"

namespace hanse {

// Whose models a rule mixes; the protocol sends and computes no more than that.
enum class Exchange {
  kNone,  // each node keeps its own
  kMean,  // one model for all
  kAll    // a mixture of its own for each node
};

class ExpertRule {
 public:
  virtual ~ExpertRule() = default;
  virtual Exchange exchange() const = 0;

  // weights [N, N]: row i is node i's share of each node's model among `participants` (ascending,
  // at least one); it sums to 1 and is zero for the others. Cost O(N^2).
  virtual void weigh(std::span<const int64_t> participants, std::span<double> weights) const = 0;

  // losses [N, N] in [0, 1]: of model j on node i's batch in (i, j). Cost O(N^2).
  virtual void observe(std::span<const double> losses);

  // What has been learnt, all of it; empty for rules that learn nothing.
  virtual std::span<double> memory() { return {}; }
};

// Exponential weights, log w_ij = -eta sum_t L_it(theta_j), w_ij = 1 at the start; kept as
// logarithms, so that no sum of losses underflows. With all nodes as participants the weighted loss
// sum_t sum_j p_ij L_it(theta_j) exceeds that of the best single j by log N / eta + eta T / 8 at
// most (Cesa-Bianchi and Lugosi 2006, theorem 2.2). REQUIRES: nodes >= 1, eta > 0.
std::unique_ptr<ExpertRule> make_fed_exp(int64_t nodes, double eta);
// Each node its own model.
std::unique_ptr<ExpertRule> make_local_experts(int64_t nodes);
// The participants' plain mean for every node.
std::unique_ptr<ExpertRule> make_mean_experts(int64_t nodes);

// sqrt(8 log N / T), which makes the bound smallest: sqrt(T log N / 2). 1 for a single node.
double best_eta(int64_t nodes, int64_t horizon);

// `count` of the nodes 0 ... nodes - 1, ascending, uniformly without replacement. Draws nothing
// when all are wanted. REQUIRES: 1 <= count <= nodes.
std::vector<int64_t> sample_peers(int64_t nodes, int64_t count, RandomStream& stream);

// min(loss / scale, 1); scale 0: the loss itself. Throws InvalidArgument when the loss is negative
// or no number, or above 1 without a scale.
double unit_loss(double loss, double scale);

// Fed-Exp's test before a node mixes: |sum_j p_ij (theta_j - Gamma_j) . grad L_i(Gamma_j)| <=
// c / sqrt(T). c = 0: no test, always true.
bool may_mix(double gap, double c, int64_t horizon);

}  // namespace hanse
