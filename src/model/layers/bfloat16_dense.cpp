#include "bfloat16_dense.hpp"

#include <algorithm>

#include "hanse/base/subnormals.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

void Bfloat16Dense::add_product(int64_t rows, int64_t out, int64_t in, const float* x,
                                const float* w, float* y) {
  const FlushSubnormals flush;
  kernels_.pack_left({x, in}, rows, in, grow(left_, left_floats(rows, in)));
  kernels_.pack_right_transposed({w, in}, in, out, grow(right_, right_pairs(in, out)));
  kernels_.multiply({.m = rows,
                     .n = out,
                     .k = in,
                     .a = left_.data(),
                     .b = right_.data(),
                     .c = y,
                     .c_line = out,
                     .scale = 1,
                     .keep = 1});
}

void Bfloat16Dense::take_back(const WeightGradient& g, const float* w, float* dx) {
  kernels_.pack_left({g.deltas, g.out}, g.samples, g.out,
                     grow(left_, left_floats(g.samples, g.out)));
  kernels_.pack_right({w, g.in}, g.out, g.in, grow(right_, right_pairs(g.out, g.in)));
  kernels_.multiply({.m = g.samples,
                     .n = g.in,
                     .k = g.out,
                     .a = left_.data(),
                     .b = right_.data(),
                     .c = dx,
                     .c_line = g.in});
}

void Bfloat16Dense::multiply_gradient(const WeightGradient& g, FactorRows deltas, int64_t outputs,
                                      float scale, float keep, float* c) {
  Bfloat16Product product{.m = outputs,
                          .n = g.in,
                          .k = g.samples,
                          .b = right_.data(),
                          .c = c,
                          .c_line = g.in,
                          .scale = scale,
                          .keep = keep};
  columns_.put(kernels_, deltas, product);
  kernels_.multiply(product);
}

void Bfloat16Dense::add_gradient(const WeightGradient& g, const float* w,
                                 const GradientTarget& target, float* dx) {
  constexpr int64_t kPartFloats = 64 << 10;  // that a step finds in the cache
  const FlushSubnormals flush;
  if (dx != nullptr) take_back(g, w, dx);
  if (!target.wants(g.offset)) return;
  const float* deltas = columns_.values(kernels_, g.deltas, g.samples * g.out);
  kernels_.pack_right({g.inputs, g.in}, g.samples, g.in,
                      grow(right_, right_pairs(g.samples, g.in)));
  if (target.step == nullptr) {
    const RowUpdate& update = target.update;
    return multiply_gradient(g, {deltas, g.out}, g.out, update.scale, update.keep,
                             update.row + g.offset);
  }
  const int64_t most = std::max<int64_t>(1, kPartFloats / g.in);
  for (int64_t first = 0; first < g.out; first += most) {
    const int64_t outputs = std::min(most, g.out - first);
    float* part = target.step->part(outputs * g.in);
    multiply_gradient(g, {deltas + first, g.out}, outputs, 1, 0, part);
    target.step->apply(g.offset + first * g.in, part, outputs * g.in);
  }
}

}  // namespace hanse
