// How a participant trains the model that it receives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "hanse/client/client_task.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/client/state_store.hpp"

namespace hanse {

class CohortTraining;
class CohortUpdate;
class ParameterLayout;

class LocalUpdate {
 public:
  // `state`: what a client keeps between rounds, block behind block; none: nothing.
  explicit LocalUpdate(std::vector<StateBlock> state = {}, RoundSteps steps = RoundSteps())
      : state_(std::move(state)), steps_(std::move(steps)) {}
  virtual ~LocalUpdate() = default;
  // A pure function of the task, the options and the client's samples.
  virtual ClientOutcome train(const ClientTask& task) = 0;
  const std::vector<StateBlock>& state_blocks() const { return state_; }
  // Floats that a client keeps between rounds: of all blocks.
  int64_t state_width() const { return width_of(state_); }
  // Floats of the control variate that the server sends with the model, and that moves by the
  // weighted sum of the clients' control_change; 0: none.
  virtual int64_t control_width() const { return 0; }
  // Does the server keep the control variate and send it? If not, task.control is empty, and the
  // sum of the changes goes to the server's optimizer alone.
  virtual bool control_returns() const { return true; }
  // Above 0: it is no running sum, but means of what the round's clients send, weighted by their
  // importance: blocks of so many entries, of which the last one counts. What a client sends of a
  // block counts as much as it sends there, and a block of which nobody sends stays.
  virtual int64_t control_block() const { return 0; }
  // Entries of it that belong to those of the model's row, from the first on.
  virtual int64_t control_of_row() const { return control_width(); }
  // Values of the row that a client sends in a round, on a link of its own: those that its steps
  // move and that do not stay with it.
  virtual int64_t sent_values(int64_t round, int64_t client, const ParameterLayout& layout) const;
  // The name of a block of one float of the state that clients.csv shows; empty: none.
  virtual std::string_view shown_block() const { return ""; }
  // Does train() leave the update itself in task.row, and not the model behind it? A small update
  // of a large model keeps all its digits then.
  virtual bool sends_direction() const { return false; }
  // The steps of a client's round.
  const RoundSteps& steps() const { return steps_; }
  // The scale of an update's feedback in a round; RoundSteps::feedback_scale() unless overridden.
  virtual double feedback_scale(int64_t round, int64_t samples, int64_t made = 0) const {
    return steps_.feedback_scale(round, samples, made);
  }
  // Do updates count by their effective steps, as FedNova's?
  virtual bool counts_steps() const { return false; }
  // Values of a row of so many that a client receives, and those among them that are its model.
  virtual int64_t received_values(int64_t row) const { return row; }
  virtual int64_t own_values(int64_t row) const { return row; }
  // Can train() find ClientOutcome::squares, for a model that is trained for model.loss?
  virtual bool finds_squares() const { return false; }
  // train() for C clients side by side, by CohortTraining with the same options; null: it only
  // trains one after the other. `cohorts` must outlive it, as this object must.
  virtual std::unique_ptr<CohortUpdate> cohort_update(CohortTraining& cohorts,
                                                      const ParameterLayout& layout);
  virtual bool trains_side_by_side() const { return false; }

  // Turns the received model in `row` [P] into the one that the client starts from; `state` is the
  // client's, zero before its first participation. Here: the same.
  virtual void receive(std::span<const float> /*state*/, std::span<float> /*row*/) const {}
  // Turns the received model in task.row into the client's own, the one it would use for itself.
  // Changes of the task's other parts do not count. Here: the model after a round of training, for
  // clients that keep none. REQUIRES: not sends_direction().
  virtual void own_model(const ClientTask& task) { train(task); }
  // Does own_model() take the model that train() left in the state? A client that never took part
  // has none until it trains for the first time.
  virtual bool keeps_own_model() const { return false; }

 protected:
  template <class Float>
  std::span<Float> block(std::span<Float> state, std::string_view name) const {
    return state_block(state_, state, name);
  }

  std::vector<StateBlock> state_;

 private:
  RoundSteps steps_;
};

}  // namespace hanse
