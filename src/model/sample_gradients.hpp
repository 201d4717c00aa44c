// Gradients of samples apart: their lengths, and the sum of all when each is clipped.
//
// The gradient of a dense layer's weight by one sample is delta x^T, of squared length |delta|^2
// |x|^2: it is never made (Goodfellow 2015). When the lengths over all layers are known, a product
// of the scaled deltas with the inputs gives the sum (Bu et al. 2023, book-keeping): float32 over
// blocks of kBlock samples, whose products are added up in float64. A sample moves its own block
// alone, in which rounding moves either of two sums by kBlock^2 2^-24 clip at most.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "hanse/model/weight_gradient.hpp"

namespace hanse {

// What makes a gradient of that squared length at most `clip` long, though float32 rounds it: the
// lengths of fewer than 2^24 values are exact to 2^-28. 0: the length is not finite.
inline double clip_scale(double squared, double clip) {
  if (!std::isfinite(squared)) return 0;
  const double most = clip * (1 - 0x1p-22);
  const double length = std::sqrt(squared);
  return length > most ? most / length : 1;
}

class SampleGradients {
 public:
  // Begins a batch, whose deltas are those of the mean loss over its samples; `sum` [trainable]
  // gets the sum of all.
  void start(int64_t rows, double clip, std::span<double> sum);

  // Notes a layer's gradient in factors. The deltas are copied; the inputs must stay until
  // finish().
  void add_product(const WeightGradient& layer);
  // Notes the bias of the layer that was noted last.
  void add_bias(int64_t offset) {
    layers_.back().bias = offset;
    for (std::size_t i = 0; i < squares_.size(); ++i) squares_[i] += layers_.back().squares[i];
  }
  // Takes the squared length of what else a sample's gradient has, and returns by what its deltas
  // are to be multiplied; 0: it counts as zero. Called once for each sample, or by finish().
  double settle(int64_t sample, double squared);

  // The row [trainable] that gets the sum: layers that are not noted write their parts.
  double* sum() const { return sum_.data(); }
  // Writes those of the noted layers. Cost: a product a layer, and for each block a pass over
  // `sum`.
  void finish();

 private:
  struct Layer {
    WeightGradient factors;       // without its deltas
    int64_t bias;                 // -1: none
    std::vector<float> deltas;    // [samples, out]
    std::vector<double> squares;  // [samples] of the deltas
  };
  static constexpr double kOpen = -1;
  static constexpr int64_t kBlock = 64;

  void scale_deltas(Layer& layer) const;
  WeightGradient block_of(const Layer& layer, int64_t first);
  void add_block(const WeightGradient& block, bool is_first);
  void add_bias(const Layer& layer);

  double rows_ = 0, clip_ = 0;
  std::span<double> sum_;
  std::vector<double> squares_;  // [samples] of the gradients of the mean loss
  std::vector<double> scales_;   // [samples]; kOpen: not settled
  std::vector<Layer> layers_;
  std::vector<float> inputs_;   // [kBlock, in] of a layer, where some count as zero
  std::vector<float> product_;  // a tile of a layer's
};

}  // namespace hanse
