// How much each of N nodes trusts each other node's model (Kesanapalli and Bharath 2021: Fed-Exp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"

namespace hanse {

// Whose models a rule mixes; the protocol sends and computes no more than that.
enum class Exchange {
  kNone,      // each node keeps its own
  kMean,      // one model for all, the participants' plain mean
  kAll,       // a mixture of its own for each node, by exponential weights
  kGradients  // each node its own model, which moves by a mixture of all nodes' gradients
};

// Do all nodes' models travel, and their losses on every node's batch?
inline bool compares_models(Exchange exchange) {
  return exchange == Exchange::kAll || exchange == Exchange::kGradients;
}

// Exponential weights, log w_ij = -eta sum_t L_it(theta_j), w_ij = 1 at the start; kept as
// logarithms, so that no sum of losses underflows. With all nodes as participants the weighted loss
// sum_t sum_j p_ij L_it(theta_j) exceeds that of the best single j by log N / eta + eta T / 8 at
// most (Cesa-Bianchi and Lugosi 2006, theorem 2.2).
//
// With kGradients (Omni-Fedge) the weights of node i are best_shares() of its losses, from the
// weights of the round before; 1/N at first.
class ExpertRule {
 public:
  // `rate`: eta > 0 of kAll, lambda in (0, 1] of kGradients, which alone learn. Throws
  // InvalidArgument when there are more nodes than kGradients' least shares allow.
  // REQUIRES: nodes >= 1.
  ExpertRule(Exchange exchange, int64_t nodes, double rate = 0);

  Exchange exchange() const { return exchange_; }

  // weights [N, N]: row i is node i's share of each node's model among `participants` (ascending,
  // at least one); it sums to 1 and is zero for the others. With kGradients all participate. Cost
  // O(N^2).
  void weigh(std::span<const int64_t> participants, std::span<double> weights) const;

  // losses [N, N], in [0, 1] for kAll: entry (i, j) is model j's on node i's batch. Cost O(N^2).
  void observe(std::span<const double> losses);

  // All that has been learnt; empty for rules that learn nothing.
  std::vector<double>& memory() { return memory_; }

 private:
  void weigh_by_losses(std::span<const int64_t> participants, std::size_t first,
                       std::span<double> row) const;

  Exchange exchange_;
  std::size_t nodes_;
  double rate_;
  std::vector<double> memory_;  // [N, N] log w of kAll, w of kGradients; else empty
};

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
