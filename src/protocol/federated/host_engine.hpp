// Participants trained one after the other in the host's memory.
#pragma once

#include <memory>
#include <vector>

#include "federated/engine.hpp"
#include "federated/kept_updates.hpp"
#include "federated/round_plan.hpp"
#include "federated/second_row.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// Of a client: train, then whatever is done to its update, then fold or keep it (hand_in).
// Memory: three rows and a sum a rank, one update each where they are kept, and clients' states.
class HostEngine final : public Engine, private SoloTraining {
 public:
  HostEngine(const EngineParts& parts, const FederatedSettings& settings);

  ScheduleTraits schedule() const override;
  ClientStateStore* states() override { return states_.get(); }
  SoloTraining* solo() override { return this; }

  void receive(std::span<float> model) override { comm_.bcast(model, 0); }
  Evaluator& shared_model(std::span<const float> model) override { return evaluator_.at(model); }
  Evaluator& received_model(int64_t client, std::span<const float> model) override;

  void train(const RoundContext& round, Findings& findings) override;
  std::vector<double> gram(int64_t k) override { return kept_->gram(k); }
  int64_t fold_kept(std::span<const double> coefficients, int64_t k) override {
    return kept_->fold(coefficients, k, sum_);
  }
  void drop_kept() override { kept_->clear(); }

  bool has_second_row() const override { return !second_row_.empty(); }
  void reduce_second_row() override { second_row_.reduce(comm_); }
  std::span<const float> take_second_row() override { return second_row_.take(); }

  ExchangeReport exchange(std::span<float> model, const PartStep& step) override;
  int64_t bytes_moved() const override { return comm_.bytes_moved(); }

 private:
  double squared_step(const RoundContext& round, int64_t client) override;
  Evaluator& own_model(const RoundContext& round, int64_t client) override;

  void train_one(const RoundContext& round, std::size_t entry, Findings& findings);
  FoldResult hand_in(const RoundContext& round, std::size_t entry);
  FoldResult fold(std::span<const float> model, double coefficient);
  void start_from(std::span<const float> model);
  ClientTask task_of(const RoundContext& round, int64_t client, std::span<float> state);
  std::vector<float> state_copy(int64_t client) const;

  Communicator& comm_;
  const Federation& federation_;
  LocalUpdate& update_;
  FederatedSettings settings_;
  std::size_t n_trainable_;  // buffers lie behind so many parameters in every row
  bool overlaps_;            // the model goes back part by part as its sum comes
  AlignedFloats row_;        // [P] of the client in training; the received model between clients
  std::vector<float> step_;  // [P] the mixed update, rank 0
  UpdateSum sum_;
  SecondRow second_row_;
  std::unique_ptr<KeptUpdates> kept_;  // null: updates are folded as they are made
  std::unique_ptr<ClientStateStore> states_;
  RowEvaluator evaluator_;
  Deadline deadline_{0};  // of this rank's participants in the round in progress
};

}  // namespace hanse
