#include "bfloat16_convolution.hpp"

#include <algorithm>

#include "hanse/base/subnormals.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

namespace {

int64_t patch_size(const Convolution& c) { return c.kernel * c.kernel * c.inputs; }

// From the first value of x to the last.
int64_t image_floats(const Convolution& c, ConstImage x) {
  return (c.height + c.kernel - 2) * x.row + (c.width + c.kernel - 1) * x.pixel;
}

void finish_row(const Convolution& c, const Finish& finish, int64_t row, Image y) {
  for (int64_t column = 0; column < c.width; ++column) {
    float* to = y.data + row * y.row + column * y.pixel;
    if (finish.rectify) {
      for (int64_t o = 0; o < c.outputs; ++o) to[o] = to[o] < 0.0F ? 0.0F : to[o];
    }
    if (finish.gate.data == nullptr) continue;
    const float* gate = finish.gate.data + row * finish.gate.row + column * finish.gate.pixel;
    for (int64_t o = 0; o < c.outputs; ++o) to[o] = gate[o] <= 0.0F ? 0.0F : to[o];
  }
}

}  // namespace

const int64_t* Bfloat16Convolution::places(const Convolution& c, int64_t rows, int64_t row,
                                           int64_t pixel) {
  int64_t* place = grow(places_, rows * c.width);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t column = 0; column < c.width; ++column) *place++ = r * row + column * pixel;
  }
  return places_.data();
}

void Bfloat16Convolution::pack_patches(const Convolution& c, ConstImage x, int64_t first,
                                       int64_t rows) {
  const int64_t size = patch_size(c), length = c.kernel * c.inputs, pixels = rows * c.width;
  const float* from = x.data + first * x.row;
  const int64_t* at = places(c, rows, x.row, x.pixel);
  float* left = grow(left_, left_floats(pixels, size));
  if (length % kBlockProducts == 0) {  // a row of a patch is whole blocks, of bfloat16 values
    for (int64_t i = 0; i < c.kernel; ++i, from += x.row, left += pixels * length / 2) {
      kernels_->pack_left({.from = from, .at = at}, pixels, length, left);
    }
    return;
  }
  float* to = grow(patches_, pixels * size);
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t i = 0; i < c.kernel; ++i, to += length) {
      std::copy_n(from + at[p] + i * x.row, length, to);
    }
  }
  kernels_->pack_left({.from = patches_.data(), .line = size}, pixels, size, left);
}

void Bfloat16Convolution::multiply_row(const Convolution& c, int64_t row, Image y,
                                       const Finish& finish, Bfloat16Product product) const {
  float* to = y.data + row * y.row;
  product.c = to;
  product.c_line = y.pixel;
  product.keep = finish.add || finish.bias != nullptr ? 1.0F : 0.0F;
  if (!finish.add) product.start = finish.bias;
  kernels_->multiply(product);
  finish_row(c, finish, row, y);
}

void Bfloat16Convolution::convolve(const Convolution& c, ConstImage x, const uint32_t* w, Image y,
                                   const Finish& finish) {
  const FlushSubnormals flush;
  Bfloat16Product product{.m = c.width, .n = c.outputs, .k = patch_size(c), .b = w};
  if (kernels_->round != nullptr) return convolve_in_place(c, x, y, finish, product);
  const int64_t most = stripe_rows(c);
  for (int64_t first = 0; first < c.height; first += most) {
    const int64_t rows = std::min(most, c.height - first);
    pack_patches(c, x, first, rows);
    product.a = left_.data();
    product.a_rows = rows * c.width;
    for (int64_t r = 0; r < rows; ++r) {
      product.a_first = r * c.width;
      multiply_row(c, first + r, y, finish, product);
    }
  }
}

void Bfloat16Convolution::convolve_in_place(const Convolution& c, ConstImage x, Image y,
                                            const Finish& finish, Bfloat16Product product) {
  const int64_t length = c.kernel * c.inputs, values = image_floats(c, x);
  const float* image = columns_.rounded(*kernels_, x.data, values, c.width * x.pixel);
  int64_t* at = grow(places_, product.k + 1);
  for (int64_t i = 0; i < c.kernel; ++i) {
    for (int64_t j = 0; j < length; ++j) *at++ = i * x.row + j;
  }
  product.columns.at = places_.data();
  product.a_step = x.pixel;
  for (int64_t r = 0; r < c.height; ++r) {
    product.columns.from = image + r * x.row;
    *at = values - r * x.row;  // zeros, where an even number of products needs one more
    multiply_row(c, r, y, finish, product);
  }
}

void Bfloat16Convolution::add_weight_gradient(const Convolution& c, ConstImage x, ConstImage d,
                                              float* gradient) {
  const FlushSubnormals flush;
  const int64_t most = stripe_rows(c), length = c.kernel * c.inputs;
  const float* values = columns_.values(*kernels_, x.data, image_floats(c, x));
  for (int64_t first = 0; first < c.height; first += most) {
    const int64_t rows = std::min(most, c.height - first), pixels = rows * c.width;
    kernels_->pack_right({.from = d.data + first * d.row, .at = places(c, rows, d.row, d.pixel)},
                         pixels, c.outputs, grow(right_, right_pairs(pixels, c.outputs)));
    const int64_t* at = places(c, rows, x.row, x.pixel);
    for (int64_t i = 0; i < c.kernel; ++i) {
      Bfloat16Product product{.m = length,
                              .n = c.outputs,
                              .k = pixels,
                              .b = right_.data(),
                              .c = gradient + i * length * c.line(),
                              .c_line = c.line(),
                              .scale = 1,
                              .keep = 1};
      columns_.put(*kernels_, {.from = values + (first + i) * x.row, .at = at}, product);
      kernels_->multiply(product);
    }
  }
}

}  // namespace hanse
