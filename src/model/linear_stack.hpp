// Many linear models on many batches at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// Logits x W_j^T + b_j of every model j on every batch. The models' weights are copied one below
// the other, so that a product reads many models; products stay below the size from which OpenBLAS
// copies its operands anew each time, and models are taken in blocks that stay in the second cache
// while every batch visits them: twice as fast as a product a model and batch.
class LinearStack {
 public:
  // Of rows with the weight [outputs, inputs] at offset 0 and, if there is one, the bias behind it.
  LinearStack(int64_t inputs, int64_t outputs, bool bias)
      : inputs_(inputs), outputs_(outputs), bias_(bias) {}

  // Calls visit(b, j, logits [batch rows, outputs]) for every batch b and row j of rows [n, P]; the
  // logits may be overwritten. The shape of each product depends on n and the batch's rows alone.
  // Cost: 2 n inputs outputs flops a sample; memory n inputs outputs floats.
  using Visit = std::function<void(std::size_t b, std::size_t j, float* logits)>;
  void visit(std::span<const float> rows, std::span<const Batch> batches, const Visit& visit);

 private:
  void visit_block(int64_t first, int64_t models, std::span<const float> rows, std::size_t b,
                   const Batch& batch, const Visit& visit);

  int64_t width() const { return outputs_ * (inputs_ + (bias_ ? 1 : 0)); }  // P

  int64_t inputs_, outputs_;
  bool bias_;
  AlignedFloats weights_;  // [n outputs, inputs]
  AlignedFloats product_;  // [batch rows, models of a product x outputs]
  AlignedFloats logits_;   // [batch rows, outputs]
};

}  // namespace hanse
