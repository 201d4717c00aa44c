// Clients of clusters, each of which has a copy of some tensors (IFCA, Ghosh et al. 2020): the
// other tensors are everybody's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hanse/client/evaluator.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/model/clustered_model.hpp"

namespace hanse {

// Wraps an update of the model of one copy: the client trains the shared tensors and the copy that
// it has taken, and the other copies in its row stay as it has received them. The own model has the
// copy that it took last; a client that has none takes its fixed one, or that of the least loss on
// its training samples (ties to the first). State: inner's, the copy and a flag. Cost: four passes
// over the row of one copy.
class ClusteredUpdate final : public LocalUpdate {
 public:
  // `fixed` [clients]: the copy that each client takes in every round; empty: whoever draws the
  // round says so by take_copy(). Federation and model must outlive it. REQUIRES: `inner` trains
  // model.plain() and has no control variate and no directions.
  ClusteredUpdate(std::unique_ptr<LocalUpdate> inner, const Federation& federation,
                  ClusteredModel& model, std::vector<int64_t> fixed);

  bool finds_squares() const override { return inner_->finds_squares(); }
  double feedback_scale(int64_t round, int64_t samples, int64_t made) const override {
    return inner_->feedback_scale(round, samples, made);
  }
  std::string_view shown_block() const override { return inner_->shown_block(); }
  int64_t received_values(int64_t row) const override;
  int64_t own_values(int64_t row) const override;
  int64_t sent_values(int64_t round, int64_t client, const ParameterLayout& layout) const override;

  const std::vector<int64_t>& fixed() const { return fixed_; }
  void take_copy(std::span<float> state, int64_t copy) const;
  // Writes the model of one copy [P] that a client of this state starts from if it takes `copy`;
  // an empty state is that of a client that never took part.
  void start(std::span<const float> wide, int64_t copy, std::span<const float> state,
             std::span<float> plain) const;
  // The copy whose model [P] has the least loss for a client of this state, ties to the first;
  // losses that are no numbers count as infinite.
  int64_t best_copy(std::span<const float> wide, std::span<const float> state,
                    const std::function<double(std::span<const float> plain)>& loss);

  ClientOutcome train(const ClientTask& task) override;
  void receive(std::span<const float> state, std::span<float> row) const override;
  bool keeps_own_model() const override { return true; }
  void own_model(const ClientTask& task) override;

 private:
  std::optional<int64_t> copy_of(std::span<const float> state) const;
  int64_t chosen(const ClientTask& task);
  ClientTask inner_task(ClientTask task);

  std::unique_ptr<LocalUpdate> inner_;
  const Federation& federation_;
  ClusteredModel& model_;
  std::vector<int64_t> fixed_;
  std::vector<float> plain_;  // [P] of the client in training
};

}  // namespace hanse
