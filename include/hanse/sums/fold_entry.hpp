// One entry of sum_i c_i (theta_i - theta), for the host and for devices.
#pragma once

#include <cmath>
#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// An entry in 64-bit fixed point.
struct ExactEntry {
  double delta;    // theta_i - theta
  int64_t addend;  // scale * delta, to the nearest, halves to even; 0 unless it fits
  bool fits;       // |scale * delta| <= limit; not for NaN
};

// REQUIRES: limit < 2^63.
HANSE_BOTH_SIDES inline ExactEntry exact_entry(float value, float origin, double scale,
                                               double limit) {
  const double delta = static_cast<double>(value) - static_cast<double>(origin);
  const double addend = delta * scale;
  const bool fits = fabs(addend) <= limit;
  return {delta, fits ? static_cast<int64_t>(nearbyint(addend)) : 0, fits};
}

// The value of an entry of the sum, from units of 2^-44.
HANSE_BOTH_SIDES inline float exact_value(int64_t units) {
  return static_cast<float>(static_cast<double>(units) * 0x1p-44);
}

// An entry in float32.
struct FastEntry {
  float delta;
  float addend;  // coefficient * delta, whatever it is
  bool fits;     // the addend is finite
};

HANSE_BOTH_SIDES inline FastEntry fast_entry(float value, float origin, float coefficient) {
  const float delta = value - origin;
  const float addend = coefficient * delta;
  return {delta, addend, fabsf(addend) <= 3.402823466e+38F};
}

}  // namespace hanse
