// Images [channels, height, width], as samples come, in channels-last.
#pragma once

#include <cstdint>

#include "convolution_kernels.hpp"
#include "layer_kernels.hpp"

namespace hanse {

// Copies an image [channels, height, width] to channels-last.
inline void to_channels_last(const float* from, int64_t channels, int64_t height, int64_t width,
                             Image to) {
  for (int64_t r = 0; r < height; ++r) {
    transpose(from + r * width, height * width, channels, width, to.data + r * to.row, channels);
  }
}

}  // namespace hanse
