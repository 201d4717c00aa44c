// What rank 0 counts of the nodes of an online run, and what it reports of them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/rules/experts/experts.hpp"

namespace hanse {

// The first node of a rank; nodes lie on the ranks in blocks of about equal length.
inline int64_t first_node(int64_t rank, int64_t ranks, int64_t nodes) {
  return nodes * rank / ranks;
}

constexpr double kUnscaled = -1;  // in the place of a scale: any finite loss of at least 0

// The loss of a model on a node's batch, in [0, 1] unless it is unscaled. Throws TrainingError for
// another one.
double checked_loss(double loss, double scale, int64_t node, int64_t model, int64_t round);

// What a node reports after a round.
struct NodeReport {
  double loss;     // of the node's model on its batch
  double correct;  // of its test batch
  double samples;  // in its test batch
};

class OnlineScores : public Stateful {
 public:
  // `exchange` of the rule; only nodes with a mixture of their own have peers to regret, and only
  // those and nodes with gradients of others have weights.
  // `classifies`: the nodes' labels are classes. `loss_scale` as OnlineTrainer::Settings has it.
  OnlineScores(int64_t nodes, Exchange exchange, bool classifies, double loss_scale);

  // Adds the losses [N, N] of all models on all nodes' batches, by the weights [N, N] of the last
  // mixture, and those [N] of the nodes' own models; in [0, 1] where nodes have peers to regret.
  void add_losses(std::span<const double> weights, std::span<const double> losses,
                  std::span<const double> own);
  // The mean over the nodes of the last losses added; NaN: there are none.
  double mixed_loss() const { return mixed_loss_; }
  // Writes a line a node for online.csv; `mixed` [N]: did it mix?
  void add_round(int64_t round, std::span<const NodeReport> reports,
                 std::span<const int64_t> mixed);
  // Writes a line a node for weights.csv, for up to RegretBook::kMostNodes nodes.
  void add_weights(int64_t round, std::span<const double> weights);

  std::vector<TableLines> take_lines();
  // The metrics after so many rounds; `eta` of Fed-Exp, 0: there is no bound of its regret.
  Metrics metrics(int64_t rounds, double eta) const;

 private:
  void visit(StateFields& fields) override;

  std::size_t nodes_;
  bool has_peers_;
  bool has_weights_;
  bool classifies_;
  RegretBook book_;
  std::vector<double> loss_sums_;      // [N] of the nodes' own losses
  std::vector<double> accuracy_sums_;  // [N] of the accuracies on test batches
  std::vector<double> scored_;         // [N] test batches with samples
  double mixed_loss_ = std::numeric_limits<double>::quiet_NaN();
  std::string node_lines_, weight_lines_;
};

}  // namespace hanse
