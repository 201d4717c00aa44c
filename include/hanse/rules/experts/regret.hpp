// Each node's losses so far, and the losses of fixed choices in hindsight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/base/state.hpp"

namespace hanse {

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
