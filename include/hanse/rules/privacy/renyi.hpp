// Renyi differential privacy of a round's noise, with what sampling makes of it, and epsilon.
//
// A curve has eps(order) at the orders of renyi_orders(). Curves of rounds add up.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hanse {

using RenyiCurve = std::vector<double>;
using RenyiAt = std::function<double(double order)>;  // of any real order above 1

std::span<const double> renyi_orders();  // 1.1 to 11 by tenths, 12 to 64, 128, 256, 512, 1024
RenyiCurve renyi_curve(const RenyiAt& at);
// A curve that is known at whole orders from 2 on. Between two of them (order - 1) eps(order),
// which is convex and 0 at order 1, is at most what a line joins.
RenyiAt between_whole_orders(std::function<double(int64_t order)> at);

// Noise on integers, by lengths and variances in steps:
// discrete Gaussian (Canonne et al. 2020, Proposition 5): order d2^2 / (2 variance).
RenyiAt discrete_gaussian_renyi(double d2, double variance);
// The sum of `shares` discrete Gaussians of variance share_variance (Kairouz, Liu and Steinke
// 2021), in n_params coordinates.
RenyiAt summed_gaussians_renyi(double d2, double share_variance, int64_t shares, int64_t n_params);
// How far such a sum is from a discrete Gaussian: tau; 0 for one share.
double summed_gaussians_gap(double share_variance, int64_t shares);
// Skellam of `variance` (Agarwal et al. 2021), whose L1 length is bounded by min(sqrt(moved), d2)
// d2: by d2 in `moved` coordinates, and as entries are integers.
RenyiAt skellam_renyi(double d2, double variance, int64_t moved);

// Each client is in a round with probability `rate`, whatever the others do:
// of noise whose curve is order rho (Mironov, Talwar and Zhang 2019, Section 3.3): the mean over y
// of N(0, s^2), s^2 = 1/(2 rho), of (1 - rate + rate e^((2y - 1)/(2 s^2)))^order. At whole orders
// that is the binomial sum. At others up to 11 it is the trapezoidal sum with step a/8, a = min(3
// s^2, 4 s): the mean has no singularity within 3 s^2 of the real line, and there it is at most e^8
// as large, so that the sum is right to 2 e^(8 - 16 pi), or 2^-59 (Trefethen and Weideman 2014,
// Theorem 5.1). The series of the paper, with two terms an index, converges slowly for large rates.
// Where s is below 0.15: between_whole_orders().
RenyiAt poisson_sampled_gaussian_renyi(double rate, double rho);
// of any curve (Zhu and Wang 2019, Theorem 5).
RenyiAt poisson_sampled_renyi(double rate, const RenyiAt& whole);
// A fixed number is drawn without replacement and one client is replaced by another (Wang et al.
// 2019); `whole` is at twice the clip.
RenyiAt uniformly_sampled_renyi(double rate, const RenyiAt& whole);

struct EpsilonBound {
  double epsilon = 0;
  double order = 0;  // at which it was found
};
// The least over the orders (Canonne et al. 2020, Proposition 12). REQUIRES: 0 < delta < 1.
EpsilonBound epsilon_of(const RenyiCurve& curve, double delta);
// The same over all real orders of order rho, which is rho-zCDP.
EpsilonBound epsilon_of_zcdp(double rho, double delta);

}  // namespace hanse
