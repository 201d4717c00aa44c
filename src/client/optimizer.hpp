// How a client steps along its gradients: torch.optim's rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/client/options.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/model/row_step.hpp"
#include "hanse/model/sgd_rule.hpp"

namespace hanse {

// The numbers of one step, the same for all values of a row.
struct StepSizes {
  float scale = 1;                                   // of the gradient: clipping, PropFair's slope
  SgdRule rule;                                      // decay, pull and momentum
  float keep = 1;                                    // share of w that decoupled decay leaves
  float rate = 0;                                    // lr, over 1 - beta1^t (adam, adamw)
  float beta1 = 0, rest1 = 0, beta2 = 0, rest2 = 0;  // rest = 1 - beta
  float root = 1;                                    // 1 / sqrt(1 - beta2^t) (adam, adamw), else 1
  float eps = 0;
};

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
using StepLoop = void (*)(const StepSizes& sizes, const StepRows& rows, int64_t n);

// One client's optimizer, of StepOptions::optimizer; client_optimizer_kinds() has the formulas.
// Moments start from zero in every participation, or lie in the client's state. Memory: a row a
// moment where they do not.
class ClientOptimizer final : public RowStep {
 public:
  // Throws InvalidArgument for options that do not go together.
  ClientOptimizer(const StepOptions& options, int64_t n_trainable);

  // What the client keeps between rounds, with optimizer.state = kept; else nothing.
  std::vector<StateBlock> state_blocks() const;
  // Is it client.optimizer = sgd?
  bool is_sgd() const { return is_sgd_; }
  // Are the steps that were started w <- w - lr g, with g of the loss and decay alone? Then
  // Model::sgd_step() does the same.
  bool is_plain() const {
    return moments_ == 0 && rows_.anchor == nullptr && rows_.pull == nullptr;
  }

  // Starts a participation: the row that moves, the client's state, and the forces, in rows that
  // lie alike. They must outlive its steps.
  void start(std::span<float> row, std::span<float> state, const StepForces& forces = {});
  // Starts a step, before its parts: its learning rate, and a factor on the gradient.
  void next(double lr, double scale);
  void apply(int64_t offset, const float* gradient, int64_t size) override;
  // Ends a participation.
  void finish(std::span<float> state) const;

 private:
  bool keeps() const { return options_.optimizer.state == Moments::kKept; }
  float* moment(int64_t which, std::span<float> state);

  StepOptions options_;
  float mu_ = 0;  // of the steps that were started
  int64_t size_;  // values of a moment
  int64_t moments_ = 0;
  bool decoupled_ = false;  // weight decay
  bool corrected_ = false;  // moments by their age
  bool is_sgd_ = false;
  StepLoop loop_ = nullptr;
  StepSizes sizes_;
  StepRows rows_{};
  int64_t age_ = 0;  // t, steps that the moments have seen
  std::vector<AlignedFloats> fresh_;
};

}  // namespace hanse
