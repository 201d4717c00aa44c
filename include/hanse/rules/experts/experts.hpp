// How much each of N nodes trusts each other node's model (Kesanapalli and Bharath 2021: Fed-Exp),
// its losses so far, and the losses of fixed choices in hindsight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/base/state.hpp"

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

// How much each node's gradient counts for another (Omni-Fedge, ICASSP 2021).
constexpr double kLeastShare = 1e-4;  // of a node

// A local minimum over {sum w = 1, kLeastShare <= w_j <= 1} of
//   sum_j losses[j] w_j^lambda - lambda sum_j log w_j,
// reached from `start` by steps that each lower it. w^lambda is concave for lambda < 1, so with
// losses above 1/(1 - lambda) there may be several minima: which one is found depends on `start`.
// By Newton steps on the diagonal Hessian, made positive, within the bounds. Cost: O(N) a step,
// some ten steps.
// REQUIRES: losses finite, 0 < lambda <= 1, `start` within the set, as long as `losses`.
std::vector<double> best_shares(std::span<const double> losses, double lambda,
                                std::vector<double> start);

// The weights q of the simplex that minimise sum_t -log sum_j q_j exp(-losses[t, j]): the best
// fixed mixture of n forecasters whose probabilities of what happened were exp(-losses). By EM, q_j
// <- q_j mean_t exp(-l_tj) / sum_k q_k exp(-l_tk), until the loss a round is within 1e-4 of the
// least, or for 1000 steps. Cost O(T n) a step. REQUIRES: losses.size() a multiple of n, not empty.
struct FixedMixture {
  std::vector<double> weights;  // [n]
  double loss = 0;              // the sum
};
FixedMixture best_fixed_mixture(std::span<const double> losses, std::size_t n);

// Losses of one run, all in [0, 1]. A round's losses are kept for best_mixture(): O(T N^2) memory,
// for up to kMostNodes nodes.
class RegretBook final : public Stateful {
 public:
  static constexpr int64_t kMostNodes = 100;

  // Losses were divided by `scale` to lie in [0, 1].
  RegretBook(int64_t nodes, double scale);

  // weights and losses [N, N] of a round, as in ExpertRule; own [N]: the loss of the model that
  // each node used.
  void add(std::span<const double> weights, std::span<const double> losses,
           std::span<const double> own);

  // Sums over the rounds so far, of one node.
  double weighted(int64_t node) const {  // of sum_j weights_ij losses_ij
    return weighted_[to_index(node)];
  }
  double own(int64_t node) const { return own_[to_index(node)]; }  // of own_i
  double best_peer(int64_t node) const;  // the least over j of the sum of losses_ij
  // The loss of the best fixed mixture of the peers' predictions, whose loss on a batch is
  // -(1/scale) log sum_j q_j exp(-scale losses_ij): where no loss was clipped, exp(-scale loss) is
  // the geometric mean of the probabilities that model j gave the batch's labels. It is at most
  // best_peer(). NaN above kMostNodes nodes.
  double best_mixture(int64_t node) const;

 private:
  void visit(StateFields& fields) override;

  std::size_t nodes_;
  double scale_;
  int64_t rounds_ = 0;
  std::vector<double> sums_;      // [N, N]
  std::vector<double> weighted_;  // [N]
  std::vector<double> own_;       // [N]
  std::vector<double> history_;   // [T, N, N]; empty above kMostNodes
};

}  // namespace hanse
