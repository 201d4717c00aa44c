// Federated bandits: clients pull arms of one finite set and synchronize their knowledge when a
// client has learned enough (Fed-GO-UCB, Li, Liu and Wang 2023, and its relatives).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/bandit_setup.hpp"
#include "hanse/protocol/footprint.hpp"
#include "hanse/protocol/protocol.hpp"

namespace hanse {

class BanditRun;

// A round: each client pulls one arm, client 0 first. The first phase comes before round 1. The
// result is that of Algorithm 1, whose clients act one after another, but the ranks work at once:
// every rank proposes its clients' turns from their knowledge, an all-reduce finds the first client
// whose pull makes all synchronize, the turns up to that client's are committed, all synchronize,
// and the clients behind it propose their turns again. So arms and times of synchronization are the
// sequential ones on any number of ranks; client c of N lies on rank floor(c ranks / N). Statistics
// are gathered and added in client order, so their sums have the same bits too. Cost of a round: an
// all-reduce of a number and, for each synchronization in it, another, a gather of the statistics
// rows of clients that have pulled since the last, and a broadcast of one row.
class BanditProtocol final : public Protocol {
 public:
  // One bandit for each element, all played in step: repeats of an experiment. Throws
  // InvalidArgument for options out of range. REQUIRES: all of one shape.
  BanditProtocol(std::vector<BanditSetup> repeats, Communicator& comm);
  ~BanditProtocol() override;

  // What a round sends and a rank keeps on so many ranks, with so many synchronizations over all
  // repeats, in each of which all clients have news.
  RoundFootprint footprint(int64_t ranks, double synchronizations) const;

  // Plays the first phase. Throws AgreedError when the regression oracle diverges.
  void initialize_model() override;
  RoundRecord round(bool stop_requested) override;

  // A client's samples are its pulls of the second phase, its loss the mean regret of a pull.
  EvaluationTable evaluate() override;
  // Means over repeats, and their deviations (of a sample: n - 1) when there are several.
  Metrics metrics() const override;
  // x-hat of each repeat.
  std::vector<ReturnedArm> returned() const override;
  // bandit.csv, a line a round and repeat.
  std::vector<TableLines> take_lines() override;

  void collect() override;
  // The clients' common knowledge in each repeat: the centre w0 + Sigma^{-1} v of the confidence
  // set, one a client where it has a network of its own; for kernels the arms' mean rewards.
  std::span<const float> model_row() const override { return row_; }
  ParameterLayout model_layout() const override;

  void resume(const State& state) override { load_everywhere(*this, state, comm_); }

  int64_t arms() const;
  int64_t clients() const;
  int64_t dimension() const;  // d, features of an arm
  int64_t row_width() const;  // numbers of a client's statistics
  RewardModel reward_model() const;
  bool sends_matrices() const;  // 2 N (d^2 + d) scalars a synchronization, as papers count

 private:
  // The numbers that ranks report after a round; a maximum merges them.
  enum Finding { kCommSeconds, kWorkSeconds, kStop, kFailed, kFindings };

  void visit(StateFields& fields) override;

  Communicator& comm_;
  std::vector<std::unique_ptr<BanditRun>> runs_;
  std::string lines_;
  std::vector<float> row_;
};

}  // namespace hanse
