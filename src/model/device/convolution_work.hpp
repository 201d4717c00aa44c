// What NetworkGradient does for convolutions besides products: functions of one item each, as in
// work.hpp, whose neighbours read and write neighbouring values. A thread reads some values before
// it writes any, so that several reads are under way. All tensors have less than 2^31 values.
#pragma once

#include <cstdint>

#include "divider.hpp"
#include "hanse/base/both_sides.hpp"

namespace hanse {

// A convolution of stride 1 over images [channels, height, width].
struct Patches {
  int64_t channels, height, width, kernel, padding;

  int64_t taps() const { return kernel * kernel; }
  int64_t rows() const { return channels * taps(); }  // of its columns
  int64_t pixels() const { return height * width; }
  int64_t out_height() const { return height + 2 * padding - kernel + 1; }
  int64_t out_width() const { return width + 2 * padding - kernel + 1; }
  int64_t out_pixels() const { return out_height() * out_width(); }
};

// The patches of images as columns of matrices, and where they lie. A client's batch is cut into
// parts of `per` samples each, whose columns are matrices of their own:
// [C, parts, (channel, tap), per, out pixels].
struct PatchColumns {
  Divider channels, per;
  Divider width, pixels;          // of images
  Divider out_width, out_pixels;  // of what comes out
  int32_t height, out_height, kernel, padding;

  PatchColumns(const Patches& of, int64_t samples)
      : channels(of.channels),
        per(samples),
        width(of.width),
        pixels(of.pixels()),
        out_width(of.out_width()),
        out_pixels(of.out_pixels()),
        height(static_cast<int32_t>(of.height)),
        out_height(static_cast<int32_t>(of.out_height())),
        kernel(static_cast<int32_t>(of.kernel)),
        padding(static_cast<int32_t>(of.padding)) {}

  // The first tap's value for output pixel 0 of a sample of all clients, in a channel.
  HANSE_BOTH_SIDES int32_t place(int32_t sample, int32_t channel) const {
    const auto [part, within] = per.split(sample);
    return ((part * channels + channel) * kernel * kernel * per + within) * out_pixels;
  }
  // From a tap to the next.
  HANSE_BOTH_SIDES int32_t step() const { return per * out_pixels; }
};

// Taps of a kernel's row that a thread treats at once.
constexpr int kTapsAtOnce = 5;

// columns <- what each tap reads for each output pixel; zero beyond the image. An item is an output
// pixel of a sample's channel, of all taps.
struct ColumnsWork {
  PatchColumns of;
  int64_t batch;
  const float* images;    // [samples, channels, height, width]
  const int64_t* places;  // [C, B] of the batches' samples; null: one behind the other
  float* columns;

  int64_t items(int64_t clients) const { return clients * batch * of.channels * of.out_pixels; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const auto [row, pixel] = of.out_pixels.split(static_cast<int32_t>(item));
    const auto [sample, channel] = of.channels.split(row);
    const auto [out_y, out_x] = of.out_width.split(pixel);
    const int64_t from = places != nullptr ? places[sample] : sample;
    const float* image = images + (from * of.channels + channel) * of.pixels;
    const int32_t first_x = out_x - of.padding, step = of.step();
    float* to = columns + of.place(sample, channel) + pixel;
    for (int32_t ky = 0; ky < of.kernel; ++ky) {
      const int32_t y = out_y + ky - of.padding;
      const bool is_row = y >= 0 && y < of.height;
      for (int32_t kx = 0; kx < of.kernel; kx += kTapsAtOnce) {
        float values[kTapsAtOnce];
        for (int32_t i = 0; i < kTapsAtOnce; ++i) {
          const int32_t x = first_x + kx + i;
          const bool is_inside = is_row && kx + i < of.kernel && x >= 0 && x < of.width;
          values[i] = is_inside ? image[y * of.width + x] : 0;
        }
        for (int32_t i = 0; i < kTapsAtOnce; ++i) {
          if (kx + i < of.kernel) to[(ky * of.kernel + kx + i) * step] = values[i];
        }
      }
    }
  }
};

// The way back: images <- sums of what their taps' columns have. An item is a pixel.
struct ImagesWork {
  PatchColumns of;
  int64_t batch;
  const float* columns;
  float* images;  // [C, B, channels, height, width]

  int64_t items(int64_t clients) const { return clients * batch * of.channels * of.pixels; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const auto [row, pixel] = of.pixels.split(static_cast<int32_t>(item));
    const auto [sample, channel] = of.channels.split(row);
    const auto [y, x] = of.width.split(pixel);
    const float* from = columns + of.place(sample, channel);
    const int32_t step = of.step();
    float sum = 0;
    for (int32_t ky = 0; ky < of.kernel; ++ky) {
      const int32_t out_y = y + of.padding - ky;
      if (out_y < 0 || out_y >= of.out_height) continue;
      for (int32_t kx = 0; kx < of.kernel; kx += kTapsAtOnce) {
        float values[kTapsAtOnce];
        for (int32_t i = 0; i < kTapsAtOnce; ++i) {
          const int32_t out_x = x + of.padding - kx - i;
          const bool is_inside = kx + i < of.kernel && out_x >= 0 && out_x < of.out_width;
          const int32_t at = (ky * of.kernel + kx + i) * step + out_y * of.out_width + out_x;
          values[i] = is_inside ? from[at] : 0;
        }
        for (int32_t i = 0; i < kTapsAtOnce; ++i) sum += values[i];
      }
    }
    images[item] = sum;
  }
};

// Every part has its client's weights. An item is a weight of a client.
struct SpreadWork {
  Divider n;
  int32_t parts;
  const float* weights;  // of each client, `stride` further, [n]
  int64_t stride;
  float* spread;  // [C, parts, n]

  int64_t items(int64_t clients) const { return clients * n; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const auto [client, i] = n.split(static_cast<int32_t>(item));
    const float weight = weights[client * stride + i];
    float* to = spread + client * parts * n + i;
    for (int32_t part = 0; part < parts; ++part) to[part * n] = weight;
  }
};

// The sum of what the parts have found, one after the other. An item is a weight of a client.
struct GatherWork {
  static constexpr int kAtOnce = 8;

  Divider n;
  int32_t parts;
  const float* found;  // [C, parts, n]
  float* sums;         // of each client, `stride` further, [n]
  int64_t stride;

  int64_t items(int64_t clients) const { return clients * n; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const auto [client, i] = n.split(static_cast<int32_t>(item));
    const float* from = found + client * parts * n + i;
    float sum = 0;
    for (int32_t part = 0; part < parts; part += kAtOnce) {
      float values[kAtOnce];
      for (int32_t k = 0; k < kAtOnce; ++k) values[k] = part + k < parts ? from[(part + k) * n] : 0;
      for (int32_t k = 0; k < kAtOnce; ++k) sum += values[k];
    }
    sums[client * stride + i] = sum;
  }
};

}  // namespace hanse
