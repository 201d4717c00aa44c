#include "hanse/rules/clock/staleness.hpp"

#include <cmath>

namespace hanse {

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
  double sum = 0;
  for (std::size_t i = 0; i < c.size(); ++i) sum += c[i] *= m[i];
  if (options.normalize == BufferNorm::kWeights) {
    for (double& x : c) x /= sum;
  }
  return c;
}

}  // namespace hanse
