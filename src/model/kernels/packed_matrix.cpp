#include "packed_matrix.hpp"

#include <algorithm>

#include "hanse/base/subnormals.hpp"
#include "layer_kernels.hpp"

namespace hanse {

// Calls f(first column, columns, panel, its line) for each panel; fills the rest of its lines.
template <class F>
void PackedMatrix::fill(int64_t k, int64_t n, F f) {
  k_ = k;
  n_ = n;
  float* panel = grow(panels_, k * whole_lines(n));
  for (int64_t first = 0; first < n; first += kPanel) {
    const int64_t columns = std::min(kPanel, n - first), line = whole_lines(columns);
    f(first, columns, panel, line);
    for (int64_t row = 0; row < k; ++row, panel += line) {
      std::fill(panel + columns, panel + line, 0.0F);
    }
  }
}

void PackedMatrix::load(const float* w, int64_t k, int64_t n) {
  if (bfloat16_ != nullptr) {
    k_ = k;
    n_ = n;
    return bfloat16_->pack_right({w, n}, k, n, grow(pairs_, right_pairs(k, n)));
  }
  fill(k, n, [&](int64_t first, int64_t columns, float* panel, int64_t line) {
    for (int64_t row = 0; row < k; ++row) {
      std::copy_n(w + row * n + first, columns, panel + row * line);
    }
  });
}

void PackedMatrix::load_transposed(const float* w, int64_t n, int64_t k) {
  if (bfloat16_ != nullptr) {
    k_ = k;
    n_ = n;
    return bfloat16_->pack_right_transposed({w, k}, k, n, grow(pairs_, right_pairs(k, n)));
  }
  fill(k, n, [&](int64_t first, int64_t columns, float* panel, int64_t line) {
    transpose(w + first * k, k, columns, k, panel, line);
  });
}

void PackedMatrix::multiply(const float* x, int64_t rows, const float* start, float* y) const {
  run(x, rows, y, start, false);
}

void PackedMatrix::add_product(const float* x, int64_t rows, float* y) const {
  run(x, rows, y, nullptr, true);
}

// Threads multiply by one matrix: each packs its rows in memory of its own.
void PackedMatrix::run_bfloat16(const float* x, int64_t rows, float* y, const float* start,
                                bool add) const {
  thread_local AlignedFloats left;
  const FlushSubnormals flush;
  bfloat16_->pack_left({x, k_}, rows, k_, grow(left, left_floats(rows, k_)));
  bfloat16_->multiply({.m = rows,
                       .n = n_,
                       .k = k_,
                       .a = left.data(),
                       .b = pairs_.data(),
                       .c = y,
                       .c_line = n_,
                       .scale = 1,
                       .keep = add || start != nullptr ? 1.0F : 0.0F,
                       .start = start});
}

void PackedMatrix::run(const float* x, int64_t rows, float* y, const float* start, bool add) const {
  if (bfloat16_ != nullptr) return run_bfloat16(x, rows, y, start, add);
  const float* panel = panels_.data();
  for (int64_t first = 0; first < n_; first += kPanel) {
    const Convolution product{.height = 1,
                              .width = rows,
                              .kernel = 1,
                              .inputs = k_,
                              .outputs = std::min(kPanel, n_ - first),
                              .margin = 0};
    kernels_->convolve(product, {x, k_, 0}, panel, {y + first, n_, 0},
                       {.bias = start != nullptr ? start + first : nullptr, .add = add});
    panel += product.weights();
  }
}

}  // namespace hanse
