#include "bfloat16_convolution.hpp"

#include <algorithm>

#include "hanse/base/subnormals.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

namespace {

int64_t patch_size(const Convolution& c) { return c.kernel * c.kernel * c.inputs; }

// What a row of pixels starts with.
void start_row(const Convolution& c, const Finish& finish, float* y, int64_t pixel) {
  if (finish.bias == nullptr) return;
  for (int64_t column = 0; column < c.width; ++column) {
    std::copy_n(finish.bias, c.outputs, y + column * pixel);
  }
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

const float* Bfloat16Convolution::gather(const Convolution& c, ConstImage x, int64_t first,
                                         int64_t rows) {
  const int64_t length = c.kernel * c.inputs;
  float* to = grow(patches_, rows * c.width * patch_size(c));
  for (int64_t r = first; r < first + rows; ++r) {
    for (int64_t column = 0; column < c.width; ++column) {
      const float* from = x.data + r * x.row + column * x.pixel;
      for (int64_t i = 0; i < c.kernel; ++i, from += x.row, to += length) {
        std::copy_n(from, length, to);
      }
    }
  }
  return patches_.data();
}

void Bfloat16Convolution::convolve(const Convolution& c, ConstImage x, const uint32_t* w, Image y,
                                   const Finish& finish) {
  const FlushSubnormals flush;
  const int64_t size = patch_size(c), most = stripe_rows(c);
  const bool adds = finish.add || finish.bias != nullptr;
  for (int64_t first = 0; first < c.height; first += most) {
    const int64_t rows = std::min(most, c.height - first), pixels = rows * c.width;
    const float* patches = gather(c, x, first, rows);
    kernels_->pack_left(patches, size, pixels, size, grow(left_, left_floats(pixels, size)));
    for (int64_t r = 0; r < rows; ++r) {
      float* to = y.data + (first + r) * y.row;
      if (!finish.add) start_row(c, finish, to, y.pixel);
      kernels_->multiply({.m = c.width,
                          .n = c.outputs,
                          .k = size,
                          .a = left_.data(),
                          .b = w,
                          .c = to,
                          .c_line = y.pixel,
                          .scale = 1,
                          .keep = adds ? 1.0F : 0.0F,
                          .a_first = r * c.width,
                          .a_rows = pixels});
      finish_row(c, finish, first + r, y);
    }
  }
}

void Bfloat16Convolution::add_weight_gradient(const Convolution& c, ConstImage x, ConstImage d,
                                              float* gradient) {
  const FlushSubnormals flush;
  const int64_t size = patch_size(c), most = stripe_rows(c);
  for (int64_t first = 0; first < c.height; first += most) {
    const int64_t rows = std::min(most, c.height - first), pixels = rows * c.width;
    const float* patches = gather(c, x, first, rows);
    kernels_->pack_left_transposed(patches, size, size, pixels,
                                   grow(left_, left_floats(size, pixels)));
    float* deltas = grow(deltas_, pixels * c.outputs);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t column = 0; column < c.width; ++column, deltas += c.outputs) {
        std::copy_n(d.data + (first + r) * d.row + column * d.pixel, c.outputs, deltas);
      }
    }
    kernels_->pack_right(deltas_.data(), c.outputs, pixels, c.outputs,
                         grow(right_, right_pairs(pixels, c.outputs)));
    kernels_->multiply({.m = size,
                        .n = c.outputs,
                        .k = pixels,
                        .a = left_.data(),
                        .b = right_.data(),
                        .c = gradient,
                        .c_line = c.line(),
                        .scale = 1,
                        .keep = 1});
  }
}

}  // namespace hanse
