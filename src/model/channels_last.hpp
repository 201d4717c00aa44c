// Images [channels, height, width], as samples come, in channels-last, and back.
#pragma once

#include <algorithm>
#include <cstdint>

#include "convolution_kernels.hpp"

namespace hanse {

// to [columns, rows] <- from [rows, columns], whose rows are `from_row` apart.
inline void transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns,
                      float* to) {
  constexpr int64_t kBlock = 16;  // columns, whose lines stay in the cache
  for (int64_t first = 0; first < columns; first += kBlock) {
    const int64_t end = std::min(columns, first + kBlock);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = first; c < end; ++c) to[c * rows + r] = from[r * from_row + c];
    }
  }
}

// An image in channels-last of one [channels, height, width].
inline void to_channels_last(const float* from, int64_t channels, int64_t height, int64_t width,
                             Image to) {
  for (int64_t r = 0; r < height; ++r) {
    transpose(from + r * width, height * width, channels, width, to.data + r * to.row);
  }
}

}  // namespace hanse
