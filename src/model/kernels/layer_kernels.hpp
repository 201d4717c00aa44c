// The loops of the layers in closed form: products of a batch with a weight matrix, cut so that
// OpenBLAS need not copy its operands, sums over a batch, and what a gradient does to a row of
// parameters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cblas.h>

#include "dense_kernels.hpp"
#include "hanse/model/weight_gradient.hpp"
#include "vector_families.hpp"

namespace hanse {

// Grows working memory of a model to at least `size` values and returns the first; it never
// shrinks. Old values may be lost.
template <class Values>
auto* grow(Values& buffer, int64_t size) {
  if (static_cast<int64_t>(buffer.size()) < size) buffer.resize(static_cast<std::size_t>(size));
  return buffer.data();
}

// Cuts a weight [out, in] that is multiplied with a batch of `rows`: f(first output, outputs, first
// input, inputs) for every tile. OpenBLAS copies both operands of a product of more than 10^6
// multiplications, which costs as much as the product itself when the batch is small; tiles below
// that limit are multiplied in place (1.3 to 3 times faster), and a tile that gives the input's
// delta is still in the cache when it is updated.
template <class F>
void for_each_tile(int64_t rows, int64_t out, int64_t in, F f) {
  constexpr int64_t kLimit = 1000000;
  int64_t n_out = out, n_in = in;  // of a tile
  if (own_kernels(rows, out, in) != nullptr) {
    n_out = kDenseTile.outputs;
    n_in = kDenseTile.inputs;
  } else if (rows * out * in > kLimit && rows <= 64 && openblas_get_num_threads() == 1) {
    n_out = std::min<int64_t>(out, 32);
    n_in = std::min(in, kLimit / (rows * n_out) / 16 * 16);
  }
  for (int64_t o = 0; o < out; o += n_out) {
    for (int64_t i = 0; i < in; i += n_in) {
      f(o, std::min(n_out, out - o), i, std::min(n_in, in - i));
    }
  }
}

struct Matrix {
  const float* data;
  int64_t stride;
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
};

// c [m, n] <- alpha a b + beta c, a [m, k] and b [k, n] after the transpositions asked for.
inline void multiply(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b,
                     float beta, float* c, int64_t c_stride) {
  cblas_sgemm(CblasRowMajor, a.transpose, b.transpose, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), alpha, a.data, static_cast<int>(a.stride), b.data,
              static_cast<int>(b.stride), beta, c, static_cast<int>(c_stride));
}

// y [rows, out] <- y + x W^T, x [rows, in], W [out, in].
inline void add_product(int64_t rows, int64_t out, int64_t in, const float* x, const float* w,
                        float* y) {
  if (const DenseKernels* own = own_kernels(rows, out, in))
    return own->add_product(rows, out, in, x, w, y);
  for_each_tile(rows, out, in, [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
    multiply(rows, n_out, n_in, 1.0F, {x + i, in}, {w + o * in + i, in, CblasTrans}, 1.0F, y + o,
             out);
  });
}

// to [rows, width] <- `values` [width] in every row; null: zeros. Copies the rows that are there,
// which takes fewer calls than a copy a row.
inline void repeat_row(const float* values, int64_t rows, int64_t width, float* to) {
  if (values == nullptr) return void(std::fill_n(to, rows * width, 0.0F));
  std::copy_n(values, rows > 0 ? width : 0, to);
  for (int64_t done = 1; done < rows; done *= 2) {
    std::copy_n(to, std::min(done, rows - done) * width, to + done * width);
  }
}

// to [columns, rows] <- from [rows, columns], rows of which are `to_row` and `from_row` apart.
// Cost: 2.5 times less than value by value where both sides are in the cache.
inline void transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                      int64_t to_row) {
  constexpr int64_t kBlock = 16;  // columns, whose lines stay in the cache
  static_assert(plain::kLanes == 4);
  for (int64_t first = 0; first < columns; first += kBlock) {
    const int64_t end = std::min(columns, first + kBlock);
    for (int64_t r = 0; r < rows; r += 4) {
      for (int64_t c = first; c < end; c += 4) {
        const int64_t n_rows = std::min<int64_t>(4, rows - r), n = std::min<int64_t>(4, end - c);
        if (n_rows == 4 && n == 4) {
          plain::transpose_block(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
          continue;
        }
        for (int64_t i = 0; i < n_rows; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            to[(c + j) * to_row + r + i] = from[(r + i) * from_row + c + j];
          }
        }
      }
    }
  }
}

// sum [width] <- the sums of the columns of values [rows, width].
inline void sum_rows(const float* values, int64_t rows, int64_t width, float* __restrict sum) {
  std::fill_n(sum, width, 0.0F);
  for (int64_t r = 0; r < rows; ++r, values += width) {
    for (int64_t i = 0; i < width; ++i) sum[i] += values[i];
  }
}

// c [n_out, n_in] <- keep c + scale times the tile at (o, i) of a weight's gradient.
inline void multiply_tile(const WeightGradient& g, int64_t o, int64_t n_out, int64_t i,
                          int64_t n_in, float scale, float keep, float* c, int64_t c_stride) {
  if (const DenseKernels* own = own_kernels(g.samples, g.out, g.in)) {
    return own->multiply_tile(g, {o, n_out, i, n_in}, scale, keep, c, c_stride);
  }
  multiply(n_out, n_in, g.samples, scale, {g.deltas + o, g.out, CblasTrans}, {g.inputs + i, g.in},
           keep, c, c_stride);
}

// dx [samples, in] <- deltas w [out, in] for tiles with the first output, += for later ones.
inline void take_back_tile(const WeightGradient& g, const float* w, int64_t o, int64_t n_out,
                           int64_t i, int64_t n_in, float* dx) {
  if (const DenseKernels* own = own_kernels(g.samples, g.out, g.in)) {
    return own->take_back(g, w, {o, n_out, i, n_in}, dx);
  }
  multiply(g.samples, n_in, n_out, 1.0F, {g.deltas + o, g.out}, {w + o * g.in + i, g.in},
           o == 0 ? 0.0F : 1.0F, dx + i, g.in);
}

// row <- keep row + scale gradient, part by part.
struct RowUpdate {
  float* row = nullptr;  // [P]
  float keep = 0;        // 0: the old values are never read
  float scale = 1;

  // Applies the gradient of the `size` values from `offset`; it may be that part of the row itself.
  void add(int64_t offset, const float* gradient, int64_t size) const {
    float* to = row + offset;
    if (keep == 0.0f) {
      for (int64_t i = 0; i < size; ++i) to[i] = scale * gradient[i];
    } else {
      for (int64_t i = 0; i < size; ++i) to[i] = keep * to[i] + scale * gradient[i];
    }
  }

  // Applies a weight's gradient. `before(first output, outputs, first input, inputs)` is called for
  // every tile of the row before it changes; without a row nothing else is done.
  template <class Before>
  void add(const WeightGradient& g, Before before) const {
    const auto visit = [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
      before(o, n_out, i, n_in);
      if (row == nullptr) return;
      multiply_tile(g, o, n_out, i, n_in, scale, keep, row + g.offset + o * g.in + i, g.in);
    };
    for_each_tile(g.samples, g.out, g.in, visit);
  }
  void add(const WeightGradient& g) const {
    add(g, [](int64_t, int64_t, int64_t, int64_t) {});
  }
};

}  // namespace hanse
