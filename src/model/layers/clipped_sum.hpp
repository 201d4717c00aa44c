// The sum of a convolution's gradients by single images, each scaled so that it is short enough.
#pragma once

#include <vector>

#include "hanse/base/aligned.hpp"
#include "kernels/convolution_kernels.hpp"

namespace hanse {

// Gradients as the kernels make them: weights [i][j][v][o] in lines of c.line() outputs, biases
// [o]. Cost: two passes over the weights an image, little beside its convolution.
class ClippedSum {
 public:
  explicit ClippedSum(const Convolution& c) : c_(c) {}

  void clear();
  // The squared length of an image's gradient.
  double squared(const AlignedFloats& weights, const AlignedFloats& bias) const;
  // Adds `scale` times an image's gradient; nothing of it at 0.
  void add(const AlignedFloats& weights, const AlignedFloats& bias, double scale);
  // Adds the sum of other images.
  void add(const ClippedSum& other);
  // Writes the sum as the row has it: weights [o][v][i][j] and bias [o].
  void write(double* weights, double* bias) const;

 private:
  Convolution c_;
  std::vector<double> weights_, bias_;
};

}  // namespace hanse
