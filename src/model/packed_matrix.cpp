#include "packed_matrix.hpp"

#include <algorithm>

#include "layer_kernels.hpp"

namespace hanse {

void PackedMatrix::shape(int64_t k, int64_t n) {
  k_ = k;
  n_ = n;
  grow(panels_, k * whole_lines(n));
}

void PackedMatrix::load(const float* w, int64_t k, int64_t n) {
  shape(k, n);
  float* to = panels_.data();
  for (int64_t first = 0; first < n; first += kPanel) {
    const int64_t columns = std::min(kPanel, n - first), line = whole_lines(columns);
    for (int64_t row = 0; row < k; ++row, to += line) {
      std::copy_n(w + row * n + first, columns, to);
      std::fill(to + columns, to + line, 0.0F);
    }
  }
}

void PackedMatrix::load_transposed(const float* w, int64_t n, int64_t k) {
  shape(k, n);
  float* to = panels_.data();
  for (int64_t first = 0; first < n; first += kPanel) {
    const int64_t columns = std::min(kPanel, n - first), line = whole_lines(columns);
    for (int64_t row = 0; row < k; ++row, to += line) {
      for (int64_t c = 0; c < columns; ++c) to[c] = w[(first + c) * k + row];
      std::fill(to + columns, to + line, 0.0F);
    }
  }
}

void PackedMatrix::multiply(const float* x, int64_t rows, const float* start, float* y) const {
  run(x, rows, y, start, false);
}

void PackedMatrix::add_product(const float* x, int64_t rows, float* y) const {
  run(x, rows, y, nullptr, true);
}

void PackedMatrix::run(const float* x, int64_t rows, float* y, const float* start, bool add) const {
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
