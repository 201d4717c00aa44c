// Numbers of two bytes that become float32 exactly.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace hanse {

// IEEE's half precision: 5 bits of exponent, 10 of fraction.
inline double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double special = fraction == 0 ? INFINITY : NAN;
  const double value = exponent == 31  ? special
                       : exponent == 0 ? std::ldexp(fraction, -24)
                                       : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 == 1 ? -value : value;
}

// The upper half of a float32.
inline float bfloat16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// The bits of the nearest one, even ones of two; NaN stays NaN, and what is too large is infinite.
inline uint16_t bfloat16_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace hanse
