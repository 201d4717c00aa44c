#include "hanse/rules/bandit/network.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

namespace {

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

std::vector<double> centre_of(const ConfidenceSet& set, const NetworkArms& arms) {
  auto centre = set.shift();
  for (std::size_t i = 0; i < centre.size(); ++i) centre[i] += arms.w0[i];
  return centre;
}

std::span<const double> point(const NetworkArms& arms, std::size_t arm) {
  const auto n = to_index(arms.network.inputs());
  return std::span(arms.points).subspan(arm * n, n);
}

// The largest f_x found over the set from its centre.
double ascend(const RewardNetwork& network, std::span<const double> x, const ConfidenceSet& set,
              double sqrt_beta, const std::vector<double>& centre, int64_t steps) {
  std::vector<double> gradient(centre.size());
  auto w = centre;
  double best = network.gradient(x, w, gradient);
  for (int64_t step = 0; step < steps; ++step) {
    const auto direction = set.solve(gradient);
    const double length = sqrt_beta / std::sqrt(inner_product(gradient, direction));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = centre[i] + length * direction[i];
    best = std::max(best, network.gradient(x, w, gradient));
  }
  return best;
}

}  // namespace

double RewardNetwork::value(std::span<const double> x, std::span<const double> w) const {
  const auto n = to_index(inputs_);
  const auto h = to_index(hidden_);
  double sum = w.back();
  for (std::size_t j = 0; j < h; ++j) {
    const double z = inner_product(w.subspan(j * n, n), x) + w[h * n + j];
    sum += w[h * (n + 1) + j] * sigmoid(z);
  }
  return sum;
}

double RewardNetwork::gradient(std::span<const double> x, std::span<const double> w,
                               std::span<double> gradient) const {
  const auto n = to_index(inputs_);
  const auto h = to_index(hidden_);
  double sum = w.back();
  gradient[gradient.size() - 1] = 1;
  for (std::size_t j = 0; j < h; ++j) {
    const double s = sigmoid(inner_product(w.subspan(j * n, n), x) + w[h * n + j]);
    const double out = w[h * (n + 1) + j];
    const double slope = out * s * (1 - s);
    sum += out * s;
    for (std::size_t i = 0; i < n; ++i) gradient[j * n + i] = slope * x[i];
    gradient[h * n + j] = slope;
    gradient[h * (n + 1) + j] = s;
  }
  return sum;
}

Optimism network_mean_optimism(std::shared_ptr<const NetworkArms> arms) {
  return [arms](const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds) {
    const auto centre = centre_of(set, *arms);
    for (std::size_t a = 0; a < bounds.size(); ++a) {
      bounds[a] = arms->network.value(point(*arms, a), centre) +
                  sqrt_beta * std::sqrt(set.squared_widths()[a]);
    }
  };
}

Optimism ellipsoid_optimism(std::shared_ptr<const NetworkArms> arms, int64_t steps) {
  return [=](const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds) {
    const auto centre = centre_of(set, *arms);
    for (std::size_t a = 0; a < bounds.size(); ++a) {
      bounds[a] = ascend(arms->network, point(*arms, a), set, sqrt_beta, centre, steps);
    }
  };
}

}  // namespace hanse
