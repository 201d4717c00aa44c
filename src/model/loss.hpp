// Losses of the last layer, the same for every model. networks/tensor_loss.hpp has them as
// operations on tensors.
//
// Logits and their deltas are float32, loss sums float64. exp and log are our own polynomials and
// every sum has a fixed order, so the bits depend neither on the compiler's vector width nor on the
// version of the C library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/model/model.hpp"

namespace hanse {

// What a model is trained for. Another loss is another class, with a line in make_loss(); where
// cohorts and networks' Hessians shall have it, with its tensors in networks/tensor_loss.cpp.
class Loss {
 public:
  explicit Loss(int64_t outputs) : outputs_(outputs) {}
  virtual ~Loss() = default;

  virtual std::string name() const = 0;         // of ModelOptions::loss
  int64_t outputs() const { return outputs_; }  // values a sample that the last layer has

  // Overwrites logits [rows, outputs] with d(mean loss)/d(logits); returns the sum of the losses.
  // A logit that is NaN makes the result NaN. REQUIRES: labels in [0, classes).
  virtual double loss_and_delta(const Batch& batch, float* logits) const = 0;

  // Overwrites the derivative [rows, outputs] of the logits along some direction with that of the
  // deltas which loss_and_delta() left.
  virtual void delta_tangent(const Batch& batch, const float* delta, float* tangent) const = 0;

  // Sums for evaluation. Overwrites the logits. Correct is the largest logit, the first of equals
  // (binary-logistic: class 1 when z > 0).
  EvaluationSums evaluate(const Batch& batch, float* logits, SampleResults results = {}) const;

 private:
  virtual int64_t count_correct(const Batch& batch, const float* logits) const;

  int64_t outputs_;
};

using LossPtr = std::shared_ptr<const Loss>;

// A name of ModelOptions::loss, for data of so many classes (0: regression). Throws InvalidArgument
// when they do not fit together.
LossPtr make_loss(const std::string& name, int64_t classes);

}  // namespace hanse
