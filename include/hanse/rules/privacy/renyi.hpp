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
using RenyiAt = std::function<double(int64_t order)>;  // of any integer order from 2 on

std::span<const int64_t> renyi_orders();  // 2 to 64, 128, 256
RenyiCurve renyi_curve(const RenyiAt& at);

// Noise on integers, by lengths and variances in steps:
// discrete Gaussian (Canonne et al. 2020, Proposition 5): order d2^2 / (2 variance).
RenyiAt discrete_gaussian_renyi(double d2, double variance);
// The sum of `shares` discrete Gaussians of variance share_variance (Kairouz, Liu and Steinke
// 2021), in n_params coordinates.
RenyiAt summed_gaussians_renyi(double d2, double share_variance, int64_t shares, int64_t n_params);
// How far such a sum is from a discrete Gaussian: tau; 0 for one share.
double summed_gaussians_gap(double share_variance, int64_t shares);
// Skellam of `variance` (Agarwal et al. 2021).
RenyiAt skellam_renyi(double d2, double variance, int64_t n_params);

// Each client is in a round with probability `rate`, whatever the others do:
// of noise whose curve is order rho (Mironov et al. 2019): the binomial sum.
RenyiAt poisson_sampled_gaussian_renyi(double rate, double rho);
// of any curve (Zhu and Wang 2019, Theorem 5).
RenyiAt poisson_sampled_renyi(double rate, RenyiAt whole);
// A fixed number is drawn without replacement and one client is replaced by another (Wang et al.
// 2019); `whole` is at twice the clip.
RenyiAt uniformly_sampled_renyi(double rate, RenyiAt whole);

struct EpsilonBound {
  double epsilon = 0;
  double order = 0;  // at which it was found
};
// The least over the orders (Canonne et al. 2020, Proposition 12). REQUIRES: 0 < delta < 1.
EpsilonBound epsilon_of(const RenyiCurve& curve, double delta);
// The same over all real orders of order rho, which is rho-zCDP.
EpsilonBound epsilon_of_zcdp(double rho, double delta);

}  // namespace hanse
