// The products of SameConvolution in bfloat16.
#include <algorithm>

#include "hanse/base/subnormals.hpp"
#include "kernels/layer_kernels.hpp"
#include "same_convolution.hpp"

namespace hanse {

void SameConvolution::pack(const Panels& panels, ConvolutionScratch& scratch) const {
  if (bfloat16_ == nullptr) return;
  const int64_t rows = panels.rows;
  uint32_t* to = grow(scratch.packed, right_pairs(rows, panels.line()));
  for (int64_t v = 0; v < panels.line(); v += Panels::kWidth) {
    bfloat16_->pack_right({scratch.weights.data() + panels.at(0, v), panels.width_at(v)}, rows,
                          panels.width_at(v), to + right_pairs(rows, v));
  }
}

// to [count, panels.line()] <- left [count, panels.rows] by the packed weights.
void SameConvolution::multiply_packed(const float* left, int64_t line, int64_t count,
                                      const Panels& panels, float* to, int64_t to_line,
                                      const ConvolutionScratch& scratch,
                                      ConvolutionScratch::Share& share) const {
  const FlushSubnormals flush;
  bfloat16_->pack_left({left, line}, count, panels.rows,
                       grow(share.left, left_floats(count, panels.rows)));
  bfloat16_->multiply({.m = count,
                       .n = panels.line(),
                       .k = panels.rows,
                       .a = share.left.data(),
                       .b = scratch.packed.data(),
                       .c = to,
                       .c_line = to_line});
}

// The gradient [outputs, depth] += dy^T inputs, in its panels.
void SameConvolution::add_packed_gradient(const float* dy, int64_t count,
                                          ConvolutionScratch::Share& share) const {
  const FlushSubnormals flush;
  const Panels panels = transposed_weights();
  Bfloat16Product product{.m = size_.outputs, .k = count, .scale = 1, .keep = 1};
  const float* deltas = share.columns.values(*bfloat16_, dy, count * sum_line());
  share.columns.put(*bfloat16_, {deltas, sum_line()}, product);
  for (int64_t v = 0; v < panels.line(); v += Panels::kWidth) {
    const int64_t width = panels.width_at(v), columns = std::min(width, panels.columns - v);
    bfloat16_->pack_right({share.inputs.data() + v, input_line()}, count, columns,
                          grow(share.right, right_pairs(count, columns)));
    product.n = columns;
    product.b = share.right.data();
    product.c = share.gradient.data() + panels.at(0, v);
    product.c_line = width;
    bfloat16_->multiply(product);
  }
}

}  // namespace hanse
