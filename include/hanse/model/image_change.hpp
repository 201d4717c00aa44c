// How training changes an image.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// Pixel (y, x) <- pixel (y + down, x + right) of the image, whose columns are in the opposite order
// when it `flips`; 0 where that is outside, and in a square whose first pixel is (top, left).
// Then  x <- share x + (1 - share) x_next,  where the batch's samples are mixed.
struct ImageChange {
  int64_t place = 0;  // of the image as it is, among the samples on a device
  int32_t down = 0, right = 0;
  int32_t top = 0, left = 0;
  int32_t flips = 0;  // 1: it does
  float share = 1;
};

// The pixels of one channel, and the side of the square.
struct ImageSize {
  int32_t height = 0, width = 0, side = 0;
};

// Before mixing: the place in its channel from which pixel (y, x) comes; -1: it is 0.
HANSE_BOTH_SIDES inline int32_t source_of(const ImageChange& change, const ImageSize& size,
                                          int32_t y, int32_t x) {
  const int32_t below = y - change.top, beside = x - change.left;
  if (below >= 0 && below < size.side && beside >= 0 && beside < size.side) return -1;
  const int32_t from_y = y + change.down;
  const int32_t from_x = (change.flips != 0 ? size.width - 1 - x : x) + change.right;
  const bool is_inside = from_y >= 0 && from_y < size.height && from_x >= 0 && from_x < size.width;
  return is_inside ? from_y * size.width + from_x : -1;
}

}  // namespace hanse
