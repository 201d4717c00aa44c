// Losses of the last layer, the same for every model: on the host's memory, and as operations on
// tensors, on any device and for autograd of any order.
//
// Logits and their deltas are float32, loss sums float64. On the host exp and log are our own
// polynomials and every sum has a fixed order, so the bits depend neither on the compiler's vector
// width nor on the version of the C library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/model/model.hpp"

namespace at {
class Tensor;
}

namespace hanse {

// What a model is trained for. Another loss is another class, with a line in make_loss().
class Loss {
 public:
  explicit Loss(int64_t outputs) : outputs_(outputs) {}
  virtual ~Loss() = default;

  int64_t outputs() const { return outputs_; }  // values a sample that the last layer has

  // Overwrites logits [rows, outputs] with d(mean loss)/d(logits); returns the sum of the losses.
  // A logit that is NaN makes the result NaN. REQUIRES: labels in [0, classes).
  virtual double loss_and_delta(const Batch& batch, float* logits) const = 0;

  // Overwrites the derivative [rows, outputs] of the logits along some direction with that of the
  // deltas which loss_and_delta() left.
  virtual void delta_tangent(const Batch& batch, const float* delta, float* tangent) const = 0;

  // Sums for evaluation. Overwrites the logits. Correct is the largest logit, the first of equals
  // (binary-logistic: class 1 when z > 0). `scores` [rows] as in Model::evaluate; null: not wanted.
  EvaluationSums evaluate(const Batch& batch, float* logits, float* scores = nullptr) const;

  // Of logits z [..., outputs] and targets [...] (labels as int32): a loss for each sample,
  // [samples] in their order, with at::Reduction::None; their mean with at::Reduction::Mean.
  virtual at::Tensor losses(const at::Tensor& z, const at::Tensor& targets,
                            int64_t reduction) const = 0;

  // [...] bool: what evaluate() counts as correct.
  virtual at::Tensor guessed_right(const at::Tensor& z, const at::Tensor& targets) const;

 private:
  virtual int64_t count_correct(const Batch& batch, const float* logits) const;

  int64_t outputs_;
};

using LossPtr = std::shared_ptr<const Loss>;

// A name of ModelOptions::loss, for data of so many classes (0: regression). Throws InvalidArgument
// when they do not fit together.
LossPtr make_loss(const std::string& name, int64_t classes);

// [...] of logits z [..., outputs]: what Model::evaluate() calls the scores.
at::Tensor class_one_scores(const at::Tensor& z);

}  // namespace hanse
