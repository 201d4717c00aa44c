// The loops of convolutions with stride 1, and of 2x2 max pooling, on images in channels-last.
#pragma once

#include <cstdint>

#include "hanse/base/aligned.hpp"
#include "layer_kernels.hpp"
#include "pooled_values.hpp"
#include "vector_families.hpp"

namespace hanse {

// Pixel (r, c) has its channels one after another from data + r * row + c * pixel. Vector kernels
// read up to kReadAhead floats behind the last channel: an image's memory goes on for as many.
template <class T>
struct ImageOf {
  T* data = nullptr;
  int64_t pixel = 0, row = 0;  // distances, floats

  operator ImageOf<const T>() const { return {data, pixel, row}; }
};
using Image = ImageOf<float>;
using ConstImage = ImageOf<const float>;
inline constexpr int64_t kReadAhead = 16;

// Copies an image [channels, height, width] to channels-last.
inline void to_channels_last(const float* from, int64_t channels, int64_t height, int64_t width,
                             Image to) {
  for (int64_t r = 0; r < height; ++r) {
    transpose(from + r * width, height * width, channels, width, to.data + r * to.row, channels);
  }
}

// y(r, c)[o] = sum over i, j < kernel and v of x(r + i, c + j)[v] w[i][j][v][o].
struct Convolution {
  int64_t height, width;    // of y
  int64_t kernel;           // side of w; x is larger by kernel - 1
  int64_t inputs, outputs;  // channels of x and y
  int64_t margin;           // rows of zeros at the top and the bottom of x, which are left out
  // Floats in a line of w or of a bias: `outputs`, then zeros.
  int64_t line() const { return whole_lines(outputs); }
  int64_t weights() const { return kernel * kernel * inputs * line(); }

  // The weights by output: [outputs][kernel] lines of a row [kernel][inputs], then zeros.
  int64_t patch() const { return kernel * inputs; }
  int64_t patch_line() const { return whole_lines(patch()); }
  int64_t output_weights() const { return kernel * patch_line(); }
};

// How a sum begins and what is done to it before it is y.
struct Finish {
  const float* bias = nullptr;  // [line()], what the sum starts with; null: zeros
  bool add = false;             // y is what it starts with
  bool rectify = false;         // max(sum, 0), NaN stays
  ConstImage gate = {};         // 0 where the gate <= 0
};

// The kernels of one family of processors. Every sum adds its products in one order, each with one
// rounding, so that all families have the same bits.
struct ConvolutionKernels {
  // REQUIRES: pixels of x lie without gaps, x.pixel == inputs, unless the kernel is 1. Cost: 2
  // flops a product, at a core's peak where `outputs` fill vectors.
  void (*convolve)(const Convolution& c, ConstImage x, const float* w, Image y,
                   const Finish& finish);

  // gradient [kernel][kernel][inputs][line()] += that of w, from the gradient d of y.
  void (*add_weight_gradient)(const Convolution& c, ConstImage x, ConstImage d, float* gradient);

  // y <- the largest of each 2x2 of x, where NaN is the largest and the first of equals counts;
  // `which` [height, width, channels] <- its place, 0 to 3. Height and width are those of y.
  void (*pool)(int64_t height, int64_t width, int64_t channels, ConstImage x, Image y, bool rectify,
               int32_t* which);

  // The gradient of pool(): d of y goes to the places of the largest, zeros to the others.
  void (*unpool)(int64_t height, int64_t width, int64_t channels, const float* d,
                 const int32_t* which, Image x);

  // Is no value infinite or NaN?
  bool (*are_finite)(const float* values, int64_t count);

  // add_weight_gradient() of unpool()'s image, for weights by output, and the gradient of x: y <-
  // dx at the pixels inside x's margin, 0 where the gate <= 0; `dx` is x's size and is overwritten.
  // REQUIRES: x and w are finite, since products with zeros of d are left out. Cost: 2 flops a
  // product that is not left out, at about half of a core's peak.
  void (*add_pooled_gradient)(const Convolution& c, ConstImage x, const PooledGradient& d,
                              float* gradient, PooledWork& work);
  void (*take_back_pooled)(const Convolution& c, const PooledGradient& d, const float* w,
                           ConstImage gate, Image dx, Image y, PooledWork& work);
};

const ConvolutionKernels& convolution_kernels(VectorFamily family = fastest_family());

}  // namespace hanse
