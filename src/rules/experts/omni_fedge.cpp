#include "hanse/rules/experts/omni_fedge.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/base/products.hpp"

namespace hanse {

namespace {

constexpr int kNewtonSteps = 500;
constexpr int kHalvings = 60;

double objective(std::span<const double> losses, double lambda, std::span<const double> w) {
  double sum = 0;
  for (std::size_t j = 0; j < w.size(); ++j) {
    sum += losses[j] * std::pow(w[j], lambda) - lambda * std::log(w[j]);
  }
  return sum;
}

// The step d within the bounds, of sum 0, that minimises sum g_j d_j + h_j d_j^2 / 2: d_j =
// -(g_j + nu) / h_j, cut at the bounds, nu by bisection.
std::vector<double> newton_step(std::span<const double> g, std::span<const double> h,
                                std::span<const double> w) {
  std::vector<double> d(w.size());
  const auto sum_at = [&](double nu) {
    double sum = 0;
    for (std::size_t j = 0; j < d.size(); ++j) {
      d[j] = std::clamp(-(g[j] + nu) / h[j], kLeastShare - w[j], 1 - w[j]);
      sum += d[j];
    }
    return sum;
  };
  double low = 0, high = 0;  // of nu: all d at their upper, at their lower bounds
  for (std::size_t j = 0; j < d.size(); ++j) {
    low = std::min(low, -g[j] - h[j]);
    high = std::max(high, -g[j] + h[j]);
  }
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (sum_at(middle) > 0 ? low : high) = middle;
  }
  sum_at(high);
  return d;
}

}  // namespace

std::vector<double> best_shares(std::span<const double> losses, double lambda,
                                std::vector<double> start) {
  std::vector<double> w = std::move(start);
  std::vector<double> g(w.size()), h(w.size()), next(w.size());
  double value = objective(losses, lambda, w);
  for (int step = 0; step < kNewtonSteps; ++step) {
    for (std::size_t j = 0; j < w.size(); ++j) {
      const double slope = losses[j] * lambda * std::pow(w[j], lambda - 1);
      const double barrier = lambda / (w[j] * w[j]);
      g[j] = slope - lambda / w[j];
      h[j] = std::max(barrier + slope * (lambda - 1) / w[j], 0.1 * barrier);
    }
    const auto d = newton_step(g, h, w);
    const double gain = -inner_product(std::span<const double>(g), d);
    if (!(gain > 1e-15 * (1 + std::abs(value)))) break;
    double share = 1;
    double found = value;
    for (int i = 0; i < kHalvings; ++i, share /= 2) {
      for (std::size_t j = 0; j < w.size(); ++j) {
        next[j] = std::clamp(w[j] + share * d[j], kLeastShare, 1.0);
      }
      found = objective(losses, lambda, next);
      if (found <= value - 1e-4 * share * gain) break;
    }
    if (!(found < value)) break;
    w.swap(next);
    value = found;
  }
  return w;
}

}  // namespace hanse
