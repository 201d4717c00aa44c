// Sums of integers that wrap: noise and masks that cancel may leave the range on the way.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// a + b modulo 2^64.
HANSE_BOTH_SIDES inline int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace hanse
