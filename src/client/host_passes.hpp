// The passes of a client's update, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/client/passes.hpp"
#include "optimizer.hpp"
#include "stored_gradient.hpp"

namespace hanse {

// A step takes one of three ways: Model::sgd_step() where it is plain SGD; Model::step_by(), which
// shows the optimizer the gradient part by part; or, where something must be known of the whole
// gradient first, with the gradient stored. The last two have the same bits.
class HostPasses {
 public:
  // `own`: where the gradients come from; null: from the options.
  HostPasses(const ClientOptions& options, const Federation& federation, Model& model,
             std::unique_ptr<StoredGradient> own = nullptr);

  // Takes the rows that such passes need, before a round needs them.
  void make_room(const std::vector<Pass>& passes);
  ClientOutcome run(PassUpdate& update, const ClientTask& task);

  const Movement& movement() const { return movement_; }

  // Are the gradients of steps the model's, with nothing but the options between?
  bool steps_by_model() const { return !has_own_; }
  // The moments that clients keep.
  std::vector<StateBlock> state_blocks() const { return optimizer_.state_blocks(); }

 private:
  ClientOutcome make_pass(PassUpdate& update, std::size_t number, const ClientTask& task);
  double step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr, bool last);
  double stored_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                     bool last);
  void accumulate(double slope, int64_t samples);
  double clip_scale(double slope) const;

  StepOptions options_;
  PropfairOptions propfair_;
  Schedule schedule_;
  Movement movement_;
  Model& model_;
  BatchStream batches_;
  ClientOptimizer optimizer_;
  bool has_own_;                           // gradients
  std::unique_ptr<StoredGradient> found_;  // the gradient that is stored
  bool stores_gradient_;
  std::size_t state_width_;
  std::vector<float> gradient_;  // [P] where it is stored
  std::vector<float> sum_;       // [P] of the gradients since the last step, with accumulation
  int64_t samples_ = 0;          // in it
  std::vector<float> received_;  // [P] the received model, where a pass leaves it
  std::vector<float> start_;     // [P] where the steps started
  std::vector<float> pull_;      // [trainable]
};

}  // namespace hanse
