// What NetworkGradient does besides products: functions of one item each, as in work.hpp. Most
// items go over the samples of a batch, so that neighbours read and write neighbouring values.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// A convolution of stride 1 over images [channels, height, width].
struct Patches {
  int64_t channels, height, width, kernel, padding;

  HANSE_BOTH_SIDES int64_t taps() const { return kernel * kernel; }
  HANSE_BOTH_SIDES int64_t rows() const { return channels * taps(); }  // of its columns
  HANSE_BOTH_SIDES int64_t pixels() const { return height * width; }
  HANSE_BOTH_SIDES int64_t out_height() const { return height + 2 * padding - kernel + 1; }
  HANSE_BOTH_SIDES int64_t out_width() const { return width + 2 * padding - kernel + 1; }
  HANSE_BOTH_SIDES int64_t out_pixels() const { return out_height() * out_width(); }
};

// columns[c, (channel, tap), b, pixel] <- what the tap reads for that pixel; zero beyond the image.
// An item is that of all b.
struct ColumnsWork {
  Patches of;
  int64_t batch;
  const float* images;    // [samples, channels, height, width]
  const int64_t* places;  // [C, B] of the batches' samples; null: one behind the other
  float* columns;         // [C, channels taps, B, out_pixels]

  int64_t items(int64_t clients) const { return clients * of.rows() * of.out_pixels(); }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t pixels = of.out_pixels(), pixel = item % pixels, row = item / pixels;
    const int64_t tap = row % of.taps(), channel = row / of.taps() % of.channels;
    const int64_t first = row / of.rows() * batch;
    const int64_t y = pixel / of.out_width() + tap / of.kernel - of.padding;
    const int64_t x = pixel % of.out_width() + tap % of.kernel - of.padding;
    const bool inside = y >= 0 && y < of.height && x >= 0 && x < of.width;
    const int64_t at = channel * of.pixels() + y * of.width + x;
    float* to = columns + row * batch * pixels + pixel;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t sample = places != nullptr ? places[first + b] : first + b;
      to[b * pixels] = inside ? images[sample * of.channels * of.pixels() + at] : 0;
    }
  }
};

// The way back: images <- sums of what their taps' columns have. An item is a pixel of all b.
struct ImagesWork {
  Patches of;
  int64_t batch;
  const float* columns;  // [C, channels taps, B, out_pixels]
  float* images;         // [C, B, channels, height, width]

  int64_t items(int64_t clients) const { return clients * of.channels * of.pixels(); }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t pixel = item % of.pixels(), row = item / of.pixels();
    const int64_t client = row / of.channels, channel = row % of.channels;
    const int64_t y = pixel / of.width + of.padding, x = pixel % of.width + of.padding;
    const int64_t out_width = of.out_width(), all = of.out_pixels();
    const int64_t first_y =
        y < of.out_height() ? 0 : y - of.out_height() + 1;  // rows of the kernel
    const int64_t end_y = y < of.kernel ? y + 1 : of.kernel;
    const int64_t first_x = x < out_width ? 0 : x - out_width + 1;
    const int64_t end_x = x < of.kernel ? x + 1 : of.kernel;
    for (int64_t b = 0; b < batch; ++b) {
      float sum = 0;
      for (int64_t ky = first_y; ky < end_y; ++ky) {
        for (int64_t kx = first_x; kx < end_x; ++kx) {
          const int64_t tap = row * of.taps() + ky * of.kernel + kx;
          sum += columns[(tap * batch + b) * all + (y - ky) * out_width + x - kx];
        }
      }
      images[((client * batch + b) * of.channels + channel) * of.pixels() + pixel] = sum;
    }
  }
};

// What stands behind a convolution: bias, pooling of `window` x `window`, ReLU and dropout, and
// where the gradient goes. The first of equal values has it, and NaN is the largest, as in
// at::max_pool2d.
struct Pooling {
  static constexpr uint8_t kNone = 255;  // chosen by no pixel: the ReLU is shut

  int64_t batch, channels, height, width;  // before it
  int64_t window;                          // 2; 1: no pooling
  float* sums;        // [C, channels, B, height, width] the convolution's, or their gradient
  const float* mask;  // [C, B, channels, out_pixels]; null: no dropout
  uint8_t* chosen;    // [C, B, channels, out_pixels] the pixel of the window, row by row
  const float* bias;  // of each client, `bias_stride` further, [channels]
  int64_t bias_stride;

  HANSE_BOTH_SIDES int64_t out_width() const { return width / window; }
  HANSE_BOTH_SIDES int64_t out_pixels() const { return height / window * out_width(); }
  HANSE_BOTH_SIDES int64_t place(int64_t client, int64_t b, int64_t channel) const {
    return ((client * batch + b) * channels + channel) * out_pixels();
  }
};

// An item is an output of all b.
struct PoolWork {
  Pooling of;
  float* images;  // [C, B, channels, out_pixels]

  int64_t items(int64_t clients) const { return clients * of.channels * of.out_pixels(); }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t pixel = item % of.out_pixels(), row = item / of.out_pixels();
    const int64_t client = row / of.channels, channel = row % of.channels;
    const int64_t corner =
        pixel / of.out_width() * of.window * of.width + pixel % of.out_width() * of.window;
    const float bias = of.bias[client * of.bias_stride + channel];
    for (int64_t b = 0; b < of.batch; ++b) {
      const float* sums = of.sums + (row * of.batch + b) * of.height * of.width + corner;
      float largest = sums[0] + bias;
      uint8_t chosen = 0, own = 0;
      for (int64_t y = 0; y < of.window; ++y) {
        for (int64_t x = 0; x < of.window; ++x, ++own) {
          const float next = sums[y * of.width + x] + bias;
          if (next > largest || next != next) {
            largest = next;
            chosen = own;
          }
        }
      }
      const int64_t at = of.place(client, b, channel) + pixel;
      const bool is_shut = largest <= 0;
      of.chosen[at] = is_shut ? Pooling::kNone : chosen;
      images[at] = (is_shut ? 0 : largest) * (of.mask != nullptr ? of.mask[at] : 1);
    }
  }
};

// Overwrites the sums with their gradient. An item is one of them, of all b.
struct UnpoolWork {
  Pooling of;
  const float* delta;  // [C, B, channels, out_pixels] the gradient of the images

  int64_t items(int64_t clients) const { return clients * of.channels * of.height * of.width; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t all = of.height * of.width, pixel = item % all, row = item / all;
    const int64_t client = row / of.channels, channel = row % of.channels;
    const int64_t y = pixel / of.width, x = pixel % of.width;
    const int64_t out_y = y / of.window, out_x = x / of.window;
    const bool inside = out_y < of.height / of.window && out_x < of.out_width();
    const auto own = static_cast<uint8_t>(y % of.window * of.window + x % of.window);
    for (int64_t b = 0; b < of.batch; ++b) {
      const int64_t at = of.place(client, b, channel) + out_y * of.out_width() + out_x;
      float value = 0;
      if (inside && of.chosen[at] == own) {
        value = delta[at] * (of.mask != nullptr ? of.mask[at] : 1);
      }
      of.sums[(row * of.batch + b) * all + pixel] = value;
    }
  }
};

// x <- relu(x + bias) mask. An item is a unit of all b.
struct UnitsWork {
  int64_t batch, units;
  float* values;      // [C, B, units]
  const float* mask;  // [C, B, units]; null: no dropout
  const float* bias;  // of each client, `bias_stride` further, [units]; null: none
  int64_t bias_stride;

  int64_t items(int64_t clients) const { return clients * units; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t client = item / units, unit = item % units;
    const float shift = bias != nullptr ? bias[client * bias_stride + unit] : 0;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t at = (client * batch + b) * units + unit;
      const float value = values[at] + shift;
      values[at] = (value <= 0 ? 0 : value) * (mask != nullptr ? mask[at] : 1);
    }
  }
};

// The way back, value by value.
struct UnitsBackWork {
  const float* values;  // that UnitsWork left
  const float* mask;    // its
  float* delta;         // gradient of those values, then of the sums

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    delta[i] = values[i] <= 0 ? 0 : delta[i] * (mask != nullptr ? mask[i] : 1);
  }
};

}  // namespace hanse
