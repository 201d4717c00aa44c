// A loss of the user's own, for training.
#pragma once

#include <span>
#include <string>

#include "hanse/model/model.hpp"

namespace hanse {

// What an objective may look at in one step, beside the logits and the labels.
struct ObjectiveRows {
  std::span<const float> row;       // [trainable]
  std::span<const float> received;  // [trainable] the row that the client received
  const float* received_logits;     // [rows, outputs] of that row, without dropout
  // [rows, positions, width] what the last layer reads: in this step, and without dropout of the
  // received row and of the client's last one. A client without a last row: null.
  const float* representation;
  const float* received_representation;
  const float* last_representation;
  std::span<const float> class_means;  // Received::class_means
};

struct ObjectiveStep : ObjectiveRows {
  const Batch& batch;
};

// Which of them it looks at; the others are null or empty.
struct ObjectiveNeeds {
  bool received_row = false, received_logits = false;
  bool representation = false, received_representation = false, last_representation = false;
  bool class_means = false;
};

class Loss;

// Takes the place of Loss in training; evaluations stay with Loss. One object a model.
class Objective {
 public:
  virtual ~Objective() = default;
  virtual ObjectiveNeeds needs() const { return {}; }
  // Overwrites logits [rows, outputs] with d(loss)/d(logits) and returns the loss of the batch,
  // both of the same bits on every call with the same arguments. `noise` feeds what is random in
  // it. Throws Error when the user's code fails.
  virtual double loss_and_delta(const ObjectiveStep& step, RandomStream& noise, float* logits) = 0;
  // d(loss)/d(row) [trainable] of the last call at constant logits; empty: it does not look at the
  // row.
  virtual std::span<const float> row_gradient() const { return {}; }
  // d(loss)/d(representation) [rows, positions, width] of the last call at constant logits; empty:
  // it does not depend on it.
  virtual std::span<const float> representation_gradient() const { return {}; }
};

// What an objective is made for.
struct ObjectiveCase {
  std::string path;  // of a TorchScript file
  int64_t outputs;   // of the last layer
  LabelForm labels;
  int64_t n_trainable;
};

// Throw InvalidArgument as train_for() and smooth_labels() do.
void check_objective_labels(const LabelForm& labels);
void check_smoothed(const Loss& loss);

}  // namespace hanse
