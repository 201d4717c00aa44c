// Losses of the last layer, the same for every model. networks/tensor_loss.hpp has them as
// operations on tensors.
//
// Logits and their deltas are float32, loss sums float64. exp and log are our own polynomials and
// every sum has a fixed order, so the bits depend neither on the compiler's vector width nor on the
// version of the C library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hanse/model/loss_rule.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// What a model is trained for. Another loss is another class, with a line in make_loss(). Cohorts
// and networks' Hessians work only with losses that have a rule.
class Loss {
 public:
  explicit Loss(int64_t outputs, int64_t positions = 1)
      : outputs_(outputs), positions_(positions) {}
  virtual ~Loss() = default;

  virtual std::string name() const = 0;  // as in ModelOptions::loss
  // What networks/tensor_loss.cpp and device/loss_work.hpp know it by; none: they do not have it.
  virtual std::optional<LossRule> rule() const { return std::nullopt; }
  int64_t outputs() const { return outputs_; }  // values that the last layer has
  // Positions of a sequence, each with outputs and a label; else 1. For sequences [rows, outputs]
  // reads [rows, positions, outputs].
  int64_t positions() const { return positions_; }
  int64_t logits() const { return outputs_ * positions_; }  // of a sample

  // Overwrites logits [rows, outputs] with d(mean loss)/d(logits); returns the sum of the losses. A
  // logit that is NaN makes the result NaN. REQUIRES: labels in [0, classes); in a sequence -1 for
  // positions without a label, which take no part, and some position with one.
  virtual double loss_and_delta(const Batch& batch, float* logits) const = 0;

  // Writes the loss of each sample, by these logits, to `losses` [rows]. Cost: the deltas again.
  void find_sample_losses(const Batch& batch, const float* logits, double* losses) const;

  // Overwrites the derivative [rows, outputs] of the logits along some direction with that of the
  // deltas which loss_and_delta() left.
  virtual void delta_tangent(const Batch& batch, const float* delta, float* tangent) const = 0;

  // Sums for evaluation. Overwrites the logits. A prediction is the largest logit, the first of
  // equals (binary-logistic: class 1 when z > 0); a sequence counts its share of correct ones.
  EvaluationSums evaluate(const Batch& batch, float* logits, SampleResults results = {}) const;

 private:
  virtual double count_correct(const Batch& batch, const float* logits) const;

  int64_t outputs_, positions_;
};

// The sum of the cross-entropies of at most kLossRows rows of logits [rows, outputs], which it
// overwrites with inverse_batch times their deltas.
inline constexpr int64_t kLossRows = 64;
using CrossEntropies = double (*)(const int32_t* labels, int64_t rows, int64_t outputs,
                                  float inverse_batch, float* logits);

// This processor's, the fastest first, plain ones last; all give the same bits.
std::vector<CrossEntropies> cross_entropies();

using LossPtr = std::shared_ptr<const Loss>;

// Makes the loss of this name (ModelOptions::loss) for data with such labels. Throws
// InvalidArgument when they do not fit together.
LossPtr make_loss(const std::string& name, const LabelForm& labels);

// Warns of a network that ends with softmax, log_softmax or sigmoid ("": it does not), which the
// loss applies again. `path` is its file.
void warn_of_activation(const std::string& last, const Loss& loss, const std::string& path);

}  // namespace hanse
