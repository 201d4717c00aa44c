#include "hanse/rules/privacy/correlation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "hanse/base/index.hpp"
#include "hanse/base/uniform.hpp"
#include "hanse/base/wrapping.hpp"

namespace hanse {

std::vector<int64_t> correlation_numerators(int64_t bands) {
  std::vector<int64_t> numerators;
  double c = 1;
  for (int64_t j = 0; j < bands; ++j) {
    if (j > 0) c *= static_cast<double>(2 * j - 1) / static_cast<double>(2 * j);
    numerators.push_back(std::llrint(std::ldexp(c, kCorrelationBits)));
  }
  return numerators;
}

double correlation_sensitivity_squared(std::span<const int64_t> numerators, int64_t rounds,
                                       int64_t separation, int64_t participations) {
  const auto bands = std::ssize(numerators);
  Uint128 squares = 0;
  for (int64_t t = 0; t < rounds; ++t) {
    // The participations in rounds l separation <= t, of which this round still has a band.
    const int64_t last = std::min(t / separation, participations - 1);
    int64_t moved = 0;
    for (int64_t l = last; l >= 0 && t - l * separation < bands; --l) {
      moved += numerators[to_index(t - l * separation)];
    }
    squares += static_cast<Uint128>(moved) * static_cast<Uint128>(moved);
  }
  return std::ldexp(static_cast<double>(squares), -2 * kCorrelationBits);
}

void add_encoded(std::span<const int64_t> sum, int64_t numerator, std::span<int64_t> y) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto product = static_cast<uint64_t>(numerator) * static_cast<uint64_t>(sum[i]);
    y[i] = wrapping_sum(y[i], static_cast<int64_t>(product));
  }
}

void decode(std::span<const int64_t> y, std::span<const int64_t> numerators,
            std::span<const std::span<const double>> before, std::span<double> xhat) {
  constexpr double kUnit = 1.0 / (1 << kCorrelationBits);
  for (std::size_t i = 0; i < y.size(); ++i) xhat[i] = kUnit * static_cast<double>(y[i]);
  const std::size_t terms = std::min(numerators.size(), before.size() + 1);
  for (std::size_t j = 1; j < terms; ++j) {
    const double c = kUnit * static_cast<double>(numerators[j]);
    for (std::size_t i = 0; i < y.size(); ++i) xhat[i] -= c * before[j - 1][i];
  }
}

TreeStep tree_step(int64_t t) {
  const int level = std::countr_zero(static_cast<uint64_t>(t));
  TreeStep step{.added = {t, level}, .removed = {}};
  int64_t end = t - 1;
  for (int l = 0; l < level; ++l) {  // prefix t - 1 has a node of every level below
    step.removed.push_back({end, l});
    end -= int64_t{1} << l;
  }
  return step;
}

int64_t tree_sensitivity_squared(int64_t rounds) {
  return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(rounds)));
}

}  // namespace hanse
