// Four numbers that one instruction reads or writes.
#pragma once

#include "hanse/base/both_sides.hpp"

namespace hanse {

struct alignas(16) Four {
  float values[4];
};

// REQUIRES: an address that 16 divides.
HANSE_BOTH_SIDES inline Four four(const float* values) {
  return *reinterpret_cast<const Four*>(values);
}

}  // namespace hanse
