// LSTM layers with their gradient in closed form on BLAS.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

// One layer (Hochreiter and Schmidhuber 1997, with forget gates), tensors and gates in torch's
// order:
//   i, f, o = sigmoid, g = tanh of  x_t W_ih^T + b_ih + h_{t-1} W_hh^T + b_hh   [rows, units each]
//   c_t = f c_{t-1} + i g,  h_t = o tanh(c_t),  c_0 = h_0 = 0.
//
// The inputs' product is one for all steps, and so is each weight's gradient: only the recurrent
// product is left inside the loops. LibTorch adds a gradient of full size in every step.
// Cost of a training step: 24 length rows units (inputs + units) flops. Memory: 12 floats a unit,
// row and step.
class LstmLayer {
 public:
  // Appends "PREFIX.weight_ih_lK", weight_hh, bias_ih, bias_hh; K is `index`.
  LstmLayer(ParameterLayout& layout, const std::string& prefix, int64_t index, int64_t inputs,
            int64_t units);

  // h [length, rows, units] of x [length, rows, inputs]. It lives until the next call; `row` and
  // `x` must be unchanged in backward().
  const float* forward(const float* row, const float* x, int64_t length, int64_t rows);

  // From delta [length, rows, units], the loss's gradient by h. Hands the gradient to `target`,
  // which may be the row of forward() itself. Returns that by x [length, rows, inputs].
  const float* backward(const float* delta, const GradientTarget& target);

 private:
  void advance(int64_t step);
  void retreat(int64_t step, const float* delta);
  void add_bias(const GradientTarget& target);

  int64_t inputs_, units_;
  int64_t weight_ih_, weight_hh_, bias_ih_, bias_hh_;  // offsets in the row
  int64_t length_ = 0, rows_ = 0;
  const float* row_ = nullptr;
  const float* x_ = nullptr;
  AlignedFloats gates_;    // [length, rows, 4 units], then their deltas
  AlignedFloats cells_;    // [length, rows, units] c_t
  AlignedFloats tanhs_;    // [length, rows, units] tanh(c_t)
  AlignedFloats hidden_;   // [length, rows, units] h_t
  AlignedFloats delta_h_;  // [rows, units] what step t + 1 says of h_t
  AlignedFloats delta_c_;  // [rows, units] of c_t
  AlignedFloats delta_x_;  // [length, rows, inputs]
  AlignedFloats bias_;     // [4 units]
};

}  // namespace hanse
