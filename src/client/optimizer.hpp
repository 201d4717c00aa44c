// How a client steps along its gradients: torch.optim's rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/client/movement.hpp"
#include "hanse/client/options.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/model/row_step.hpp"
#include "hanse/model/step_rule.hpp"

namespace hanse {

// What draws a row besides its gradient: pull + mu (w - anchor).
struct StepForces {
  double mu = 0;
  const float* anchor = nullptr;  // null: no proximal term
  const float* pull = nullptr;    // null: none
};

// What one step reads and writes; parts of rows that lie alike.
struct StepRows {
  float* w;
  const float* gradient;
  const float* anchor;  // null: no proximal term
  const float* pull;    // null: none
  float* first;         // moments; null: the rule has none
  float* second;
};
using StepLoop = void (*)(const StepNumbers& numbers, const StepSize& size, const StepRows& rows,
                          int64_t n);

// The numbers of StepOptions::optimizer's steps; client_optimizer_kinds() has the formulas.
class Stepping {
 public:
  // Throws InvalidArgument for options that do not go together.
  explicit Stepping(const StepOptions& options);

  // Those of all steps, without mu.
  const StepNumbers& numbers() const { return numbers_; }
  // Those of a step: its learning rate, a factor on the gradient, and t, the steps that the moments
  // have seen with this one.
  StepSize size(double lr, double scale, int64_t age) const;

 private:
  StepOptions options_;
  StepNumbers numbers_;
  bool decoupled_ = false;  // weight decay
  bool corrected_ = false;  // moments by their age
};

// One client's optimizer. Moments start from zero in every participation, or lie in the client's
// state. Memory: a row a moment where they do not.
class ClientOptimizer final : public RowStep {
 public:
  // Throws InvalidArgument as Stepping does.
  ClientOptimizer(const StepOptions& options, int64_t n_trainable);

  // What the client keeps between rounds, with optimizer.state = kept; else nothing.
  std::vector<StateBlock> state_blocks() const;
  // Are the steps that were started w <- w - lr g, with g of the loss and decay alone? Then
  // Model::sgd_step() does the same.
  bool is_plain() const {
    return moments_ == 0 && rows_.anchor == nullptr && rows_.pull == nullptr && part_ == nullptr;
  }

  // Starts a participation: the row that moves, the client's state, and the forces, in rows that
  // lie alike. They must outlive its steps.
  void start(std::span<float> row, std::span<float> state, const StepForces& forces = {});
  // From the next step on, until the next start(), moves these values alone, as PhaseWalk has them.
  // `part` must stay.
  void move(const MovingPart& part, int64_t age_change);
  // Sets the gradient [trainable] of the others to zero.
  void clear_still(std::span<float> gradient) const;
  // Starts a step, before its parts: its learning rate, and a factor on the gradient.
  void next(double lr, double scale);
  void apply(int64_t offset, const float* gradient, int64_t size) override;
  bool wants(int64_t offset) const override { return part_ == nullptr || part_->holds(offset); }
  bool take(const WeightGradient& product) override { return !wants(product.offset); }
  // Ends a participation.
  void finish(std::span<float> state) const;

 private:
  void step(int64_t offset, const float* gradient, int64_t size);
  float* moment(int64_t which, std::span<float> state);

  Stepping stepping_;
  StepNumbers numbers_;  // with the mu of the steps that were started
  int64_t moments_;
  int64_t size_;  // values of a moment
  bool keeps_;
  StepLoop loop_;
  StepSize step_;
  StepRows rows_{};
  const MovingPart* part_ = nullptr;  // that moves; null: all
  int64_t age_ = 0;                   // t, steps that the moments have seen
  std::vector<AlignedFloats> fresh_;
};

}  // namespace hanse
