// exp and log of the losses, for the host and for devices: polynomials of our own, so that the bits
// depend on no library.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// The polynomial in x with these coefficients, the highest power's first.
template <class T, class... Rest>
HANSE_BOTH_SIDES inline T polynomial(T x, T first, Rest... rest) {
  ((first = first * x + rest), ...);
  return first;
}

// e^x for x <= 0, relative error below 2e-7; e^-87 below -87. Branch-free, so that loops vectorize.
// Cephes expf: e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2. NaN stays NaN.
HANSE_BOTH_SIDES inline float exp_nonpositive(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  const float p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                             4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  const float mantissa = p * (r * r) + r + 1.0f;
  const uint32_t exponent = (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u;
  return mantissa * __builtin_bit_cast(float, exponent);  // 2^n e^r
}

// ln x for x >= 1, relative error below 1e-15. ln x = k ln 2 + 2 artanh((m - 1) / (m + 1)),
// x = 2^k m with m in [sqrt(1/2), sqrt(2)). NaN stays NaN.
HANSE_BOTH_SIDES inline double log_from_one(double x) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdull;  // bits of sqrt(1/2)
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t k = (bits - kRootHalf) >> 52;
  const double m = __builtin_bit_cast(double, bits - (k << 52));
  const double exponent = __builtin_bit_cast(double, k | 0x4330000000000000ull) - 0x1p52;
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  const double p = polynomial(s2, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                              1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  const double artanh = s + s * s2 * p;
  return exponent * 0.6931471805599453 + 2.0 * artanh + (x - x);  // x - x carries NaN and Inf on
}

}  // namespace hanse
