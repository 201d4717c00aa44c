// Online federation: N nodes, each with its own model on its own stream of batches.
//
// Every client is a node. Nodes lie on the ranks in contiguous blocks of about equal length, and a
// node's batches never leave its rank. In a round every node i
//   trains:   its estimate Gamma_i, from its model theta_i and its new batch;
//   mixes:    theta_i = sum_j p_ij Gamma_j, with the weights p of an ExpertRule;
//   predicts: suffers L_i(theta_j) on its batch for every j, from which the rule learns.
// In "train-then-predict", the order of Fed-Exp (Kesanapalli and Bharath 2021, section 4.3),
// Gamma_{t+1} is fitted to the batch on which theta_{t+1} is scored. "predict-then-train" scores
// models that have not seen the batch.
// Omni-Fedge moves models by gradients. In a round every node i suffers L_i(theta_j) for every j,
// from which the rule learns weights w; then, first with all layers but the last and then with the
// last, whose gradients are computed anew,
//   theta_l <- theta_l - lr sum_i w_li grad L_i(theta_l).
// Known weakness of Fed-Exp as printed: while the weights are equal, so are all mixtures theta_j
// and their losses, and the weights stay equal; in effect it is FedSGD. score_estimates mends that:
// the rule learns from L_i(Gamma_j), the losses of the mixed experts. in_place mends it, too: a
// node's mixture is made of the mixtures of the nodes before it.
//
// Communication of a round, for rules that mix: one all-gather of the N rows Gamma (4 N P bytes a
// rank), for Fed-Exp another of N x N losses. Every rank mixes all N models by itself in one
// product of fixed shape and keeps all weights: no second all-gather brings the mixtures, and the
// bits do not depend on the ranks. The losses travel in place of the log-weights, which they
// determine: rank 0 reports them. Rules without peers send no rows. Omni-Fedge sends N x N losses,
// and an exact sum of the N rows of gradients to rank 0 and back: 12 N P bytes a rank, and as much
// memory. Memory: 2 N P floats a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hanse/client/stream_fit.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/mixing.hpp"
#include "hanse/protocol/footprint.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/protocol/stream.hpp"
#include "hanse/rules/experts/experts.hpp"

namespace hanse {

class OnlineScores;
class PeerMixture;
struct NodeReport;

class OnlineTrainer final : public Protocol {
 public:
  struct Parts {
    Communicator& comm;
    const Federation& federation;
    Model& model;
    ExpertRule& rule;  // each rank's copy; all learn the same
    StreamFit& fit;
    RowMixer mix_rows = hanse::mix_rows;
  };
  struct Settings {
    uint64_t seed = 1;
    std::optional<uint64_t> model_seed = std::nullopt;  // if it is not the run's
    int64_t peers = 0;  // K nodes mixed in a round, drawn anew; 0: all
    bool train_first = true;
    bool score_estimates = false;  // see above
    bool in_place = false;         // see above
    double lr = 0.1;               // Omni-Fedge's
    double loss_scale = 0;         // see unit_loss
    double c = 0;                  // for Fed-Exp's test, see may_mix; 0: off
    double eta = 0;                // Fed-Exp's, for the bound on its regret; 0: no bound
    AskedMetrics asked = {};       // of evaluations
    StreamOptions stream;
  };

  // Throws InvalidArgument when a stream is too short, there are fewer nodes than peers, or the
  // model of Omni-Fedge has buffers.
  OnlineTrainer(Parts parts, Settings settings);
  ~OnlineTrainer() override;

  // What a round sends and a rank keeps on so many ranks.
  RoundFootprint footprint(int64_t ranks) const;

  // Every node starts with a model of its own: with equal models and equal weights all mixtures
  // would be equal for ever. Rules that keep one model for all start with one.
  void initialize_model() override;
  // Throws CommError alone: rounds behind the stream's end are refused before the run.
  RoundRecord round(bool stop_requested) override;

  // Evaluates every node's model on the samples of the client whose stream it receives.
  EvaluationTable evaluate() override;
  // online_loss, online_accuracy: means over nodes and rounds of a node's own model on its batches
  // and test batches. For Fed-Exp, in losses of [0, 1]: regret_mean and regret_max over nodes, of
  // the weighted loss against the best peer in hindsight; regret_own, the paper's, of the node's
  // own model; regret_mixture against the best fixed mixture; regret_bound when all nodes are
  // mixed.
  Metrics metrics() const override;
  // online.csv, N lines a round; weights.csv, N lines an evaluation, for up to 100 nodes.
  std::vector<TableLines> take_lines() override;

  void collect() override;
  std::span<const float> model_row() const override { return theta_; }
  ParameterLayout model_layout() const override;

  void resume(const State& state) override;

 private:
  // A rank's report to rank 0 after a round.
  struct RankReport {
    double train_s, comm_s, wait_s, stop, failed, bytes;
  };

  // A node's numbers for all others beside N losses: its own model's, and Fed-Exp's test.
  enum Number { kOwnLoss, kOwnUnitLoss, kGap, kNumbers };

  void visit(StateFields& fields) override;
  void train();
  void mix();
  void descend();
  void predict();
  void predict_own();
  void predict_all();
  double mixing_gap(int64_t node);
  std::vector<NodeReport> score();
  RoundRecord report(const RankReport& mine, std::span<const NodeReport> own);
  void replay_stream();

  int64_t round_number() const { return completed_ + 1; }
  std::size_t node_count() const { return static_cast<std::size_t>(nodes_); }
  std::span<double> numbers_of(int64_t node);
  bool descends() const { return parts_.rule.exchange() == Exchange::kGradients; }
  bool keeps_estimates() const { return settings_.c > 0 || settings_.score_estimates; }
  std::span<float> row_of(std::vector<float>& rows, int64_t node) const;
  template <class Work>
  void for_my_nodes(Work work);

  Parts parts_;
  Settings settings_;
  Stream stream_;
  int64_t nodes_;                // N
  int64_t begin_ = 0, end_ = 0;  // this rank's nodes
  std::unique_ptr<PeerMixture> mixture_;
  std::unique_ptr<OnlineScores> scores_;  // complete on rank 0
  std::vector<float> theta_;  // [N, P]; for rules without peers only this rank's rows are true
  std::vector<float> gamma_;  // [N, P]

  // About the round in progress:
  std::vector<StreamBatch> batches_;  // of this rank's nodes
  std::vector<double> numbers_;       // [N, N + kNumbers]: all models' losses, then the Numbers
  double train_s_ = 0;
  double wait_s_ = 0;
  StreamBatch test_batch_;
};

}  // namespace hanse
