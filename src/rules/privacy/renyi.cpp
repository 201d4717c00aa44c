#include "hanse/rules/privacy/renyi.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostOrder = 1024;

// Those of dp-accounting, and 64.
constexpr auto kOrders = [] {
  std::array<double, 157> orders{};
  std::size_t n = 0;
  for (int tenths = 11; tenths < 110; ++tenths) orders[n++] = tenths / 10.0;
  for (int whole = 11; whole <= 64; ++whole) orders[n++] = whole;
  for (int large = 128; large <= kMostOrder; large *= 2) orders[n++] = large;
  return orders;
}();

bool is_whole(double order) { return order == std::floor(order); }

double log_binomial(int64_t n, int64_t k) {
  static const auto log_factorial = [] {
    std::array<double, kMostOrder + 1> logs{};
    for (std::size_t i = 1; i < logs.size(); ++i) {
      logs[i] = logs[i - 1] + std::log(static_cast<double>(i));
    }
    return logs;
  }();
  return log_factorial[to_index(n)] - log_factorial[to_index(k)] - log_factorial[to_index(n - k)];
}

// ln(sum of e^x).
class LogSum {
 public:
  void add(double x) {
    if (x == -std::numeric_limits<double>::infinity()) return;
    const double larger = std::max(log_, x), smaller = std::min(log_, x);
    log_ = larger + std::log1p(std::exp(smaller - larger));
  }
  double log() const { return log_; }

 private:
  double log_ = -std::numeric_limits<double>::infinity();
};

// ln of C(a, i) (1-q)^(a-i) q^i. REQUIRES: 0 < q < 1.
double log_share(int64_t a, int64_t i, double q) {
  return log_binomial(a, i) + static_cast<double>(a - i) * std::log1p(-q) +
         static_cast<double>(i) * std::log(q);
}

// The mean of poisson_sampled_gaussian_renyi() at orders up to kMostFraction.
constexpr double kMostFraction = 11;

class SampledMean {
 public:
  SampledMean(double rate, double deviation) {
    const double step = std::min(3 * deviation * deviation, 4 * deviation) / 8;
    const double reach = 10 * deviation;
    for (double y = -reach; y <= kMostFraction + reach; y += step) {
      const double exponent = (2 * y - 1) / (2 * deviation * deviation);
      ratios_.push_back(exponent < 600 ? std::log1p(rate * std::expm1(exponent))
                                       : exponent + std::log(rate));
      logs_.push_back(-y * y / (2 * deviation * deviation));
    }
    scale_ = std::log(step / (deviation * std::sqrt(2 * std::numbers::pi)));
  }

  double log_moment(double order) const {
    double most = 0, sum = 0;
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      most = std::max(most, logs_[i] + order * ratios_[i]);
    }
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      sum += std::exp(logs_[i] + order * ratios_[i] - most);
    }
    return most + std::log(sum) + scale_;
  }

 private:
  std::vector<double> logs_, ratios_;  // of the density and of the likelihood ratio
  double scale_ = 0;
};

double bound_at(double order, double renyi, double delta) {
  // Total variation is at most sqrt(1 - e^-eps), by which (0, delta) may hold already.
  if (delta * delta + std::expm1(-renyi) > 0) return 0;
  const double epsilon = renyi + std::log1p(-1 / order) - std::log(delta * order) / (order - 1);
  return std::max(epsilon, 0.0);
}

}  // namespace

std::span<const double> renyi_orders() { return kOrders; }

RenyiCurve renyi_curve(const RenyiAt& at) {
  RenyiCurve curve;
  for (const double order : kOrders) curve.push_back(at(order));
  return curve;
}

RenyiAt between_whole_orders(std::function<double(int64_t order)> at) {
  return [at = std::move(at)](double order) {
    const auto below = static_cast<int64_t>(std::floor(order));
    const auto whole = static_cast<double>(below);
    if (whole == order) return at(below);
    const double part = order - whole;
    const double lower = below > 1 ? (whole - 1) * at(below) : 0;
    return ((1 - part) * lower + part * whole * at(below + 1)) / (order - 1);
  };
}

RenyiAt discrete_gaussian_renyi(double d2, double variance) {
  const double rho = d2 * d2 / (2 * variance);
  return [rho](double order) { return order * rho; };
}

double summed_gaussians_gap(double share_variance, int64_t shares) {
  // Terms fall as k/(k+1) rises, fast until k is large: the rest is at most as many of the last.
  const double rate = 2 * std::numbers::pi * std::numbers::pi * share_variance;
  double sum = 0;
  for (int64_t k = 1; k < shares; ++k) {
    const double term = std::exp(-rate * static_cast<double>(k) / static_cast<double>(k + 1));
    if (k == 1000) return 10 * (sum + term * static_cast<double>(shares - k));
    sum += term;
  }
  return 10 * sum;
}

RenyiAt summed_gaussians_renyi(double d2, double share_variance, int64_t shares, int64_t n_params) {
  const double deviation = std::sqrt(static_cast<double>(shares) * share_variance);
  const auto p = static_cast<double>(n_params);
  const double two = d2 / deviation, one = std::min(std::sqrt(p), d2) * d2 / deviation;
  const double tau = summed_gaussians_gap(share_variance, shares);
  return [=](double a) {
    const double root = two + std::sqrt(p) * tau;
    return std::min({a / 2 * two * two + tau * p,
                     a / 2 * (two * two + 2 * one * tau + tau * tau * p), a / 2 * root * root});
  };
}

RenyiAt skellam_renyi(double d2, double variance, int64_t moved) {
  // The sum of sizes of integers is at most the sum of their squares.
  const double d1 = std::min(std::sqrt(static_cast<double>(moved)), d2) * d2;
  return between_whole_orders([=](int64_t order) {
    const auto a = static_cast<double>(order);
    return a * d2 * d2 / (2 * variance) +
           std::min(((2 * a - 1) * d2 * d2 + 6 * d1) / (4 * variance * variance),
                    3 * d1 / (2 * variance));
  });
}

namespace {

// A curve that is known at whole orders, and no sampling makes worse than `whole`.
RenyiAt sampled(const RenyiAt& whole, std::function<double(int64_t order)> at) {
  return [whole, line = between_whole_orders(std::move(at))](double order) {
    return std::min(line(order), whole(order));
  };
}

}  // namespace

RenyiAt poisson_sampled_gaussian_renyi(double rate, double rho) {
  if (rate >= 1) return [rho](double order) { return order * rho; };
  const auto by_sum = sampled(discrete_gaussian_renyi(1, 1 / (2 * rho)), [=](int64_t order) {
    LogSum sum;
    for (int64_t i = 0; i <= order; ++i) {
      const auto count = static_cast<double>(i);
      sum.add(log_share(order, i, rate) + (count * count - count) * rho);
    }
    return std::max(sum.log(), 0.0) / static_cast<double>(order - 1);
  });
  const double deviation = 1 / std::sqrt(2 * rho);
  if (!(0.15 < deviation && std::isfinite(deviation))) return by_sum;
  return [=, by_mean = SampledMean(rate, deviation)](double order) {
    return is_whole(order) || order > kMostFraction
               ? by_sum(order)
               : std::max(by_mean.log_moment(order), 0.0) / (order - 1);
  };
}

RenyiAt poisson_sampled_renyi(double rate, const RenyiAt& whole) {
  if (rate >= 1) return whole;
  return sampled(whole, [rate, whole](int64_t order) {
    const auto a = static_cast<double>(order);
    LogSum sum;
    sum.add((a - 1) * std::log1p(-rate) + std::log1p((a - 1) * rate));
    for (int64_t l = 2; l <= order; ++l) {
      const auto of_order = static_cast<double>(l);
      sum.add(log_share(order, l, rate) + (of_order - 1) * whole(of_order) +
              (l > 2 ? std::log(3.0) : 0));
    }
    return std::max(sum.log(), 0.0) / (a - 1);
  });
}

RenyiAt uniformly_sampled_renyi(double rate, const RenyiAt& whole) {
  if (rate >= 1) return whole;
  return sampled(whole, [rate, whole](int64_t order) {
    const auto a = static_cast<double>(order);
    const auto log_pairs = [&](int64_t j) {
      return static_cast<double>(j) * std::log(rate) + log_binomial(order, j);
    };
    const double two = whole(2);
    LogSum sum;
    sum.add(0);
    sum.add(log_pairs(2) +
            std::min(std::log(4.0) + two + std::log(-std::expm1(-two)), std::log(2.0) + two));
    for (int64_t j = 3; j <= order; ++j) {
      const auto of_order = static_cast<double>(j);
      sum.add(std::log(2.0) + log_pairs(j) + (of_order - 1) * whole(of_order));
    }
    return sum.log() / (a - 1);
  });
}

EpsilonBound epsilon_of(const RenyiCurve& curve, double delta) {
  EpsilonBound best{.epsilon = std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double epsilon = bound_at(kOrders[i], curve[i], delta);
    if (epsilon < best.epsilon) best = {epsilon, kOrders[i]};
  }
  return best;
}

EpsilonBound epsilon_of_zcdp(double rho, double delta) {
  // Every order is a bound. It falls and then rises: a search by the golden section in ln(order -
  // 1).
  const auto at = [&](double log) {
    const double order = 1 + std::exp(log);
    return EpsilonBound{bound_at(order, order * rho, delta), order};
  };
  constexpr double kGolden = 0.6180339887498949;
  double low = -20, high = 30;
  for (int i = 0; i < 120; ++i) {
    const double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
    if (at(left).epsilon <= at(right).epsilon) {
      high = right;
    } else {
      low = left;
    }
  }
  return at((low + high) / 2);
}

}  // namespace hanse
