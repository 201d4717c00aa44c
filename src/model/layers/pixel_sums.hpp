// Sums over the pixels of an image.
#pragma once

#include <cstdint>

#include "kernels/convolution_kernels.hpp"

namespace hanse {

// sum [channels] += the pixels of an image.
inline void add_pixels(ConstImage image, int64_t height, int64_t width, int64_t channels,
                       float* __restrict sum) {
  for (int64_t r = 0; r < height; ++r) {
    const float* pixel = image.data + r * image.row;
    for (int64_t c = 0; c < width; ++c, pixel += image.pixel) {
      for (int64_t v = 0; v < channels; ++v) sum[v] += pixel[v];
    }
  }
}

}  // namespace hanse
