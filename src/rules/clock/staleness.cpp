#include "hanse/rules/clock/staleness.hpp"

#include <cmath>
#include <limits>

namespace hanse {

namespace {

constexpr double kRounding = 1e-9;  // of the sum of weights that a rule has made sum to 1

}  // namespace

double staleness_weight(const AsyncOptions& options, int64_t tau) {
  const auto t = static_cast<double>(tau);
  switch (options.staleness) {
    case StalenessKind::kConstant: break;
    case StalenessKind::kPoly: return std::pow(1 + t, -options.a);
    case StalenessKind::kHinge: return t <= options.b ? 1 : 1 / (options.a * (t - options.b) + 1);
    case StalenessKind::kThreshold: return tau == 0 || t <= options.b ? 1 : options.a;
  }
  return 1;
}

std::vector<double> staleness_weights(const AsyncOptions& options, std::span<const int64_t> tau) {
  std::vector<double> weights;
  for (const int64_t t : tau) weights.push_back(staleness_weight(options, t));
  return weights;
}

std::vector<double> buffer_coefficients(const AsyncOptions& options, std::span<const double> m,
                                        std::span<const int64_t> tau) {
  std::vector<double> c = staleness_weights(options, tau);
  double all = 0, left = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i] *= m[i];
    all += std::abs(m[i]);
    left += std::abs(c[i]);
  }
  if (options.normalize == BufferNorm::kBuffer) return c;
  if (std::abs(all - 1) < kRounding) all = 1;
  const double share = left / all;
  for (double& x : c) x = share >= std::numeric_limits<double>::min() ? x / share : 0;
  return c;
}

}  // namespace hanse
