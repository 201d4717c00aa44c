// A node's estimate from the batch that has just arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "hanse/model/cohort.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

class StreamFit {
 public:
  virtual ~StreamFit() = default;
  // row [P]: the node's model on entry, its estimate Gamma on return. `noise` feeds dropout.
  virtual void fit(int64_t node, const Batch& batch, RandomStream& noise, std::span<float> row) = 0;
  // Fits several nodes from `first` on: their batches [n], keys of their streams [n] and rows [n,
  // P].
  virtual void fit_all(int64_t first, std::span<const Batch> batches,
                       std::span<const Cohort::NoiseKey> keys, std::span<float> rows);
  // Does the estimate depend on earlier batches? After a resume they are then given once more, in
  // order, which is exact and keeps nothing in the checkpoint.
  virtual bool remembers() const { return false; }
};

// The samples of a step: the next `rows` of the batch, the last ones of it perhaps fewer, and then
// again from its start.
struct StepBatch {
  int64_t rows = 0;  // 0: the whole batch
  int64_t sample_values = 0, label_values = 1;

  // The samples of a step, from 0, in a batch of `all` samples.
  SampleRange of(int64_t step, int64_t all) const;
};

// `steps` steps of plain SGD on the batch. `model` must outlive the object.
std::unique_ptr<StreamFit> make_sgd_fit(Model& model, int64_t steps, double lr,
                                        const StepBatch& step = {});

// Least squares with a ridge, for linear models (weight [outputs, inputs], then the bias, which the
// ridge shrinks too). Targets: one-hot classes; +-1 for a single output with labels; the
// regression's own. With W the weights and the bias as one more column,
//   on the batch:       argmin |X W' - Y|^2 + ridge |W - W_row|^2, W_row the node's model;
//   on all data so far: argmin |X W' - Y|^2 + ridge |W|^2 over the node's batches until now.
// Both by recursive least squares in float64, D = inputs + 1 columns, B rows:
//   H = X G, S = I + H X', W += R' S^-1 H with R = Y - X W', G -= H' S^-1 H, and G = I / ridge
//   first.
// Cost a batch: O(B^2 D) flops; on all data 4 B D^2, and D^2 doubles of memory a node.
// REQUIRES: ridge > 0.
enum class RidgeData { kBatch, kAll };
std::unique_ptr<StreamFit> make_ridge_fit(int64_t inputs, int64_t outputs, double ridge,
                                          RidgeData data);

}  // namespace hanse
