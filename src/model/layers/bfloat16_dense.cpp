#include "bfloat16_dense.hpp"

#include <algorithm>

#include "hanse/base/subnormals.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

void Bfloat16Dense::multiply(Bfloat16Product product, FactorRows w, bool turned) {
  constexpr int64_t kPartPairs = 64 << 10;  // that a product finds in the cache, and the next part
  constexpr int64_t kColumns = 2 * kPanelColumns;
  const auto pack = turned ? kernels_.pack_right_transposed : kernels_.pack_right;
  const int64_t k = product.k, n = product.n;
  const int64_t most = std::max<int64_t>(kPartPairs / right_pairs(k, kColumns), 1) * kColumns;
  uint32_t* right = grow(right_, right_pairs(k, std::min(most, n)));
  const auto part_at = [&](int64_t first) {
    return FactorRows{turned ? w[first] : w.from + first, w.line};
  };
  product.a = left_.data();
  product.b = right;
  for (int64_t first = 0; first < n; first += product.n, product.c += product.n) {
    product.n = std::min(most, n - first);
    pack(part_at(first), k, product.n, right);
    const int64_t next = first + product.n, columns = std::min(most, n - next);
    ReadAhead ahead(part_at(next), turned ? columns : k, turned ? k : columns);
    product.ahead = &ahead;
    kernels_.multiply(product);
  }
}

void Bfloat16Dense::add_product(int64_t rows, int64_t out, int64_t in, const float* x,
                                const float* w, float* y) {
  const FlushSubnormals flush;
  kernels_.pack_left({x, in}, rows, in, grow(left_, left_floats(rows, in)));
  multiply({.m = rows, .n = out, .k = in, .c = y, .c_line = out, .keep = 1}, {w, in}, true);
}

void Bfloat16Dense::take_back(const WeightGradient& g, const float* w, float* dx) {
  kernels_.pack_left({g.deltas, g.out}, g.samples, g.out,
                     grow(left_, left_floats(g.samples, g.out)));
  multiply({.m = g.samples, .n = g.in, .k = g.out, .c = dx, .c_line = g.in}, {w, g.in}, false);
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
