// What stands behind a convolution, there and back: bias, pooling, ReLU and dropout.
#pragma once

#include <cstdint>

#include "block_work.hpp"
#include "divider.hpp"
#include "hanse/base/both_sides.hpp"

namespace hanse {

// Pooling of `window` x `window`, and where the gradient goes. The first of equal values has it,
// and NaN is the largest, as in at::max_pool2d.
struct Pooling {
  static constexpr uint8_t kNone = 255;  // chosen by no pixel: the ReLU is shut

  Divider channels, per;          // samples stand in parts of `per`, as PatchColumns
  Divider width, pixels;          // before it
  Divider out_width, out_pixels;  // behind it
  Divider window;                 // 2; 1: no pooling
  int64_t batch;
  float* sums;        // [C, parts, channels, per, height, width] the convolution's; their gradient
  const float* mask;  // [C, B, channels, out_pixels]; null: no dropout
  uint8_t* chosen;    // [C, B, channels, out_pixels] the pixel of the window, row by row
  const float* bias;  // of each client, `bias_stride` further, [channels]
  int64_t bias_stride;

  // Pixel 0 of a sample of all clients, in a channel of the sums.
  HANSE_BOTH_SIDES int32_t place(int32_t sample, int32_t channel) const {
    const auto [part, within] = per.split(sample);
    return ((part * channels + channel) * per + within) * pixels;
  }
};

// An item is an output.
struct PoolWork {
  Pooling of;
  Divider batch;
  float* images;  // [C, B, channels, out_pixels]

  int64_t items(int64_t clients) const { return clients * batch * of.channels * of.out_pixels; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const auto [row, pixel] = of.out_pixels.split(static_cast<int32_t>(item));
    const auto [sample, channel] = of.channels.split(row);
    const auto [y, x] = of.out_width.split(pixel);
    const int32_t client = batch.split(sample).quotient;
    const float* from = of.sums + of.place(sample, channel) + (y * of.width + x) * of.window;
    const bool is_pooled = of.window > 1;
    const float sums[4] = {from[0], is_pooled ? from[1] : 0, is_pooled ? from[of.width] : 0,
                           is_pooled ? from[of.width + 1] : 0};
    const float scale = of.mask != nullptr ? of.mask[item] : 1;
    const float bias = of.bias[client * of.bias_stride + channel];
    float largest = sums[0] + bias;
    uint8_t chosen = 0;
    for (uint8_t i = 1; i < 4; ++i) {
      const float next = sums[i] + bias;
      if (is_pooled && (next > largest || next != next)) {
        largest = next;
        chosen = i;
      }
    }
    const bool is_shut = largest <= 0;
    of.chosen[item] = is_shut ? Pooling::kNone : chosen;
    images[item] = (is_shut ? 0 : largest) * scale;
  }
};

// Overwrites the sums with their gradient, and adds the bias's up. A block is a channel of a
// client.
struct UnpoolWork {
  static constexpr int kThreads = 256, kAtOnce = 4;
  struct Scratch {
    float sums[kThreads];
  };

  Pooling of;
  Divider batch;
  const float* delta;    // [C, B, channels, out_pixels] the gradient of the images
  float* bias_gradient;  // as the bias

  int64_t blocks(int64_t clients) const { return clients * of.channels; }
  HANSE_BOTH_SIDES static constexpr int phases() { return 1 + halvings(kThreads) + 1; }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t block, int thread, Scratch& scratch) const {
    const auto [client, channel] = of.channels.split(static_cast<int32_t>(block));
    if (phase == 0) {
      scratch.sums[thread] = sum_of(client, channel, thread);
    } else if (phase < phases() - 1) {
      halve(phase - 1, thread, kThreads, scratch.sums);
    } else if (thread == 0) {
      bias_gradient[client * of.bias_stride + channel] = scratch.sums[0];
    }
  }

  // Writes the pixels thread, thread + kThreads, ... of all samples of a client's channel. Returns
  // their sum.
  HANSE_BOTH_SIDES float sum_of(int32_t client, int32_t channel, int32_t thread) const {
    const int32_t n = batch * of.pixels;
    float sum = 0;
    for (int32_t i = thread; i < n; i += kAtOnce * kThreads) {
      float values[kAtOnce];
      int32_t places[kAtOnce];
      for (int32_t k = 0; k < kAtOnce; ++k) {
        const int32_t at = i + k * kThreads;
        values[k] = at < n ? value_of(client * batch, channel, at, places[k]) : 0;
      }
      for (int32_t k = 0; k < kAtOnce; ++k) {
        if (i + k * kThreads < n) of.sums[places[k]] = values[k];
        sum += values[k];
      }
    }
    return sum;
  }

  // The gradient of a pixel of samples `first`, ..., and its place.
  HANSE_BOTH_SIDES float value_of(int32_t first, int32_t channel, int32_t i, int32_t& place) const {
    const auto [b, pixel] = of.pixels.split(i);
    const auto [y, x] = of.width.split(pixel);
    const auto [out_y, own_y] = of.window.split(y);
    const auto [out_x, own_x] = of.window.split(x);
    place = of.place(first + b, channel) + pixel;
    const int32_t within = out_y * of.out_width + out_x;
    if (within >= of.out_pixels || out_x >= of.out_width) return 0;  // cut off by the pooling
    const int32_t at = ((first + b) * of.channels + channel) * of.out_pixels + within;
    const float value = delta[at] * (of.mask != nullptr ? of.mask[at] : 1);
    return of.chosen[at] == own_y * of.window + own_x ? value : 0;
  }
};

}  // namespace hanse
