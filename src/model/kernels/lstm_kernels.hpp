// What an LSTM layer does in a step beside its products: the gates' functions, the cell and the
// output, and the gradient of all that.
#pragma once

#include <cstdint>

#include "vector_families.hpp"

namespace hanse {

// A step of `rows` samples (Hochreiter and Schmidhuber 1997, with forget gates), gates in torch's
// order:
//   i, f, o <- sigmoid, g <- tanh of their sums;  c_t = f c_{t-1} + i g,  h_t = o tanh(c_t).
struct LstmStep {
  int64_t rows, units;
  float* gates;         // [rows, 4 units] the sums of i, f, g, o, then the gates
  const float* before;  // [rows, units] c_{t-1}; null: zeros
  float* cells;         // [rows, units] c_t
  float* tanhs;         // [rows, units] tanh(c_t)
  float* hidden;        // [rows, units] h_t
};

// The step's gradient, from what the step has left.
struct LstmStepBack {
  int64_t rows, units;
  float* gates;         // [rows, 4 units] the gates, then the loss's gradient by their sums
  const float* before;  // [rows, units] c_{t-1}; null: zeros
  const float* tanhs;   // [rows, units] tanh(c_t)
  const float* delta;   // [rows, units] the loss's gradient by h_t
  float* delta_cells;   // [rows, units] the gradient by c_t from step t + 1, then that by c_{t-1}
};

// The kernels of one family of processors. Each operation is rounded once and in one order, so that
// all families have the same bits. The functions' relative error is below 3e-7, that of tanh near
// 0, too; a sigmoid below 1e-38 is 0. NaN stays NaN.
struct LstmKernels {
  // Cost: five exponentials and five divisions a unit, 5 cycles with AVX-512. 12 floats a unit are
  // read or written, 13 on the way back.
  void (*advance)(const LstmStep& step);
  void (*retreat)(const LstmStepBack& step);

  // The functions alone, of `count` values; y may be x.
  void (*sigmoids)(int64_t count, const float* x, float* y);
  void (*tanhs)(int64_t count, const float* x, float* y);
};

const LstmKernels& lstm_kernels(VectorFamily family = fastest_family());

}  // namespace hanse
