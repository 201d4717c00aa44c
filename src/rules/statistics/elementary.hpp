// exp and log in float64 by additions and products alone: the same bits on every processor, where a
// mathematical library takes other ways on other ones. Relative errors below 4e-16.
#pragma once

#include <cmath>
#include <cstdint>

namespace hanse {

// 2 (s + s^3 / 3 + s^5 / 5 + ...) = log((1 + s) / (1 - s)), for |s| <= 1/3.
inline double log_ratio(double s) {
  constexpr double kInverse[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23,
                                 1.0 / 25, 1.0 / 27, 1.0 / 29, 1.0 / 31, 1.0 / 33};
  const double q = s * s;
  double sum = 0;
  for (int i = 16; i >= 0; --i) sum = sum * q + kInverse[i];
  return 2 * s * sum;
}

// log(1 + x) for x in [0, 1].
inline double log_of_one_plus(double x) { return log_ratio(x / (2 + x)); }

constexpr double kLn2High =
    0x1.62e42fee00000p-1;  // its last bits are 0: times an int32 it is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// REQUIRES: x is positive, finite and not subnormal.
inline double log_of(double x) {
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);  // in [1/2, 1)
  if (fraction < 0.70710678118654752) {
    fraction *= 2;
    --exponent;
  }
  return exponent * kLn2High + (log_ratio((fraction - 1) / (fraction + 1)) + exponent * kLn2Low);
}

// 0 below -708, where the result would not be a normal number. REQUIRES: x <= 708.
inline double exp_of(double x) {
  if (x < -708) return 0;
  const double k = std::nearbyint(x * 0x1.71547652b82fep0);
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= log(2) / 2
  double sum = 0;
  constexpr double kInverse[] = {1.0,
                                 1.0,
                                 1.0 / 2,
                                 1.0 / 6,
                                 1.0 / 24,
                                 1.0 / 120,
                                 1.0 / 720,
                                 1.0 / 5040,
                                 1.0 / 40320,
                                 1.0 / 362880,
                                 1.0 / 3628800,
                                 1.0 / 39916800,
                                 1.0 / 479001600,
                                 1.0 / 6227020800.0};
  for (int i = 13; i >= 0; --i) sum = sum * r + kInverse[i];
  return std::ldexp(sum, static_cast<int>(k));
}

// 1 / (1 + exp(-x)).
inline double logistic_of(double x) {
  const double e = exp_of(-std::abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

// log(1 + exp(x)).
inline double softplus_of(double x) {
  return (x > 0 ? x : 0) + log_of_one_plus(exp_of(-std::abs(x)));
}

}  // namespace hanse
