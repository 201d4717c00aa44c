// Fully connected layers with ReLU between them, gradient in closed form on BLAS.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gradient_target.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/model/model.hpp"
#include "layers/bfloat16_dense.hpp"

namespace hanse {

struct DenseOptions {
  // The input is the features before their ReLU, and backward() returns their delta. Otherwise the
  // input is read as it is and has no delta.
  bool rectify_input = false;
  double input_dropout = 0;   // share of inputs dropped in training, [0, 1); needs rectify_input
  double hidden_dropout = 0;  // share of each hidden layer's units dropped in training, [0, 1)
  bool bias = true;           // false: every b_l is 0 and has no place in the row
  bool bfloat16 = false;      // products in bfloat16; without derivatives along a direction
};

// y_l = W_l x_l + b_l, x_{l+1} = dropout(relu(y_l)), with torch's layout: W [out, in], b [out].
//
// Cost of a training step on B rows: 6 B sum_l(in out) flops (4 for the first layer without input
// delta). Memory: three floats a unit and row at most; the gradient itself is never held here.
class DenseStack {
 public:
  // Appends "fc1.weight", "fc1.bias", "fc2.weight", ... to `layout`, only the weights without
  // bias. widths = {inputs, hidden layers ..., outputs}.
  DenseStack(ParameterLayout& layout, const std::vector<int64_t>& widths,
             const DenseOptions& options = {});

  // Logits [rows, outputs] of input [rows, inputs]; they live until the next call and may be
  // overwritten with their deltas. Dropout is drawn from `noise`; null: evaluation, no dropout.
  float* forward(const float* row, const float* input, int64_t rows, RandomStream* noise);

  // Hands the gradient to `target`, which may be the row of forward() itself. Takes the deltas from
  // the buffer that forward() returned. Returns the delta of the input [rows, inputs] or null.
  // `of_last_input`, unless null, is one more delta of what the last layer reads.
  // REQUIRES: the row and the input of the last forward() are unchanged.
  float* backward(const float* row, const GradientTarget& target,
                  const float* of_last_input = nullptr);

  // What the last layer read in the last forward(), behind ReLU and dropout; its width, 0 where it
  // is the samples themselves.
  const float* last_input() const;
  int64_t last_width() const;

  // The derivative [rows, outputs] of the last forward()'s logits along v [P], which lies as the
  // row does; `of_input` [rows, inputs] is that of the input, given with rectify_input alone. It
  // lives until the next call and may be overwritten. REQUIRES: has_tangents().
  float* forward_tangent(const float* row, const float* v, const float* of_input = nullptr);

  // out <- the derivative along v of the gradient that backward() would store. `tangent` is
  // the derivative of the logits' deltas, which stand in the buffer that forward() returned.
  // Returns the delta of the input [rows, inputs] and its derivative, with rectify_input alone.
  // REQUIRES: forward_tangent() of the same row and v was the last call.
  struct InputDelta {
    const float *delta = nullptr, *tangent = nullptr;
  };
  InputDelta backward_tangent(const float* row, const float* v, const float* tangent, float* out);

  // Model::record_product_cost of these layers; records hold float32 factors.
  int64_t record_product_cost(int64_t rows) const;

  // Does backward() know the target's `samples`? The factors of a record and of samples are
  // float32.
  bool parts_samples() const { return !options_.bfloat16; }
  bool has_tangents() const {
    return options_.input_dropout == 0 && options_.hidden_dropout == 0 && !options_.bfloat16;
  }

 private:
  struct Layer {
    int64_t in, out;
    int64_t weight = 0;          // offset in the row
    int64_t bias = 0;            // offset in the row; only with options_.bias
    AlignedFloats output;        // [rows, out], after ReLU and dropout if hidden
    std::vector<float> tangent;  // [rows, out], of `output`
    float backward_scale = 1;    // what dropout multiplied the kept outputs with
  };

  float activate(const float* from, float* to, int64_t size, double dropout, RandomStream* noise);

  DenseOptions options_;
  std::optional<Bfloat16Dense> bfloat16_;
  std::vector<Layer> layers_;
  std::vector<float> rectified_;          // [rows, inputs], with rectify_input
  std::vector<float> rectified_tangent_;  // likewise
  float rectified_scale_ = 1;
  AlignedFloats delta_[2];  // of a layer's input, by turns
  std::vector<float> delta_tangent_[2];
  std::vector<float> bias_delta_;  // [widest layer]
  std::vector<uint16_t> noise_;    // 16 random bits a unit
  const float* input_ = nullptr;
  int64_t rows_ = 0;
};

}  // namespace hanse
