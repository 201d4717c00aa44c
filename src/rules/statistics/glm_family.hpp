// The laws of generalized linear models with their canonical links: what one sample adds to a fit.
#pragma once

#include <cmath>
#include <string>

#include "elementary.hpp"
#include "hanse/rules/statistics/options.hpp"

namespace hanse {

// Of a sample with target y and linear part eta.
struct GlmPoint {
  double mu = 0;        // link^-1(eta)
  double slope = 0;     // d mu / d eta
  double deviance = 0;  // of weight 1
};

constexpr double kMostLinear = 700;  // beyond, exp has no float64

inline GlmPoint glm_point(GlmFamily family, double y, double eta) {
  if (family == GlmFamily::kGaussian) return {eta, 1, (y - eta) * (y - eta)};
  if (family == GlmFamily::kBinomial) {
    const double mu = logistic_of(eta);
    return {mu, mu * (1 - mu), 2 * (softplus_of(eta) - y * eta)};
  }
  const double mu = exp_of(eta < kMostLinear ? eta : kMostLinear);
  const double fit = y > 0 ? y * (log_of(y) - eta) - y : 0;
  return {mu, mu, 2 * (fit + mu)};
}

// log(y!) by Stirling's series.
inline double log_factorial_of(double y) {
  double shift = 0, x = y + 1;
  for (; x < 16; x += 1) shift += log_of(x);
  const double inverse = 1 / x, square = inverse * inverse;
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  const double series =
      inverse *
      (1.0 / 12 -
       square * (1.0 / 360 - square * (1.0 / 1260 - square * (1.0 / 1680 - square / 1188))));
  return (x - 0.5) * log_of(x) - x + kHalfLogTwoPi + series - shift;
}

// log-likelihood of a Poisson law at mu = y, and the largest |value| of it up to y: it is about
// -log(2 pi y) / 2.
inline double saturated_poisson(double y) {
  return y > 0 ? y * log_of(y) - y - log_factorial_of(y) : 0;
}
inline double largest_saturated_poisson(double y) {
  return 1.5 + (y > 1 ? log_of(2 * M_PI * y) / 2 : 0);
}

}  // namespace hanse
