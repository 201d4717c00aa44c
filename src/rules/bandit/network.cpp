#include "hanse/rules/bandit/network.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

namespace {

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

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

namespace {

std::vector<double> centre_of(const ConfidenceSet& set, const NetworkArms& arms) {
  auto centre = set.shift();
  for (std::size_t i = 0; i < centre.size(); ++i) centre[i] += arms.w0[i];
  return centre;
}

std::span<const double> point(const NetworkArms& arms, std::size_t arm) {
  const auto n = to_index(arms.network.inputs());
  return std::span(arms.points).subspan(arm * n, n);
}

class NetworkMeanOptimism final : public Optimism {
 public:
  explicit NetworkMeanOptimism(std::shared_ptr<const NetworkArms> arms) : arms_(std::move(arms)) {}

  void bound(const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds) const override {
    const auto centre = centre_of(set, *arms_);
    for (std::size_t a = 0; a < bounds.size(); ++a) {
      bounds[a] = arms_->network.value(point(*arms_, a), centre) +
                  sqrt_beta * std::sqrt(set.squared_widths()[a]);
    }
  }

 private:
  std::shared_ptr<const NetworkArms> arms_;
};

class EllipsoidOptimism final : public Optimism {
 public:
  EllipsoidOptimism(std::shared_ptr<const NetworkArms> arms, int64_t steps)
      : arms_(std::move(arms)), steps_(steps) {}

  void bound(const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds) const override {
    const auto centre = centre_of(set, *arms_);
    for (std::size_t a = 0; a < bounds.size(); ++a) {
      bounds[a] = ascend(set, sqrt_beta, centre, point(*arms_, a));
    }
  }

 private:
  double ascend(const ConfidenceSet& set, double sqrt_beta, const std::vector<double>& centre,
                std::span<const double> x) const {
    std::vector<double> gradient(centre.size());
    auto w = centre;
    double best = arms_->network.gradient(x, w, gradient);
    for (int64_t step = 0; step < steps_; ++step) {
      const auto direction = set.solve(gradient);
      const double length = sqrt_beta / std::sqrt(inner_product(gradient, direction));
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = centre[i] + length * direction[i];
      best = std::max(best, arms_->network.gradient(x, w, gradient));
    }
    return best;
  }

  std::shared_ptr<const NetworkArms> arms_;
  int64_t steps_;
};

}  // namespace

std::unique_ptr<Optimism> make_network_mean_optimism(std::shared_ptr<const NetworkArms> arms) {
  return std::make_unique<NetworkMeanOptimism>(std::move(arms));
}

std::unique_ptr<Optimism> make_ellipsoid_optimism(std::shared_ptr<const NetworkArms> arms,
                                                  int64_t steps) {
  return std::make_unique<EllipsoidOptimism>(std::move(arms), steps);
}

}  // namespace hanse
