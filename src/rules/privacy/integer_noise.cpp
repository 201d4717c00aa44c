#include "hanse/rules/privacy/integer_noise.hpp"

#include <fmt/format.h>

namespace hanse {

uint64_t integer_root(uint64_t n) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 31; bit != 0; bit >>= 1) {
    const uint64_t larger = root | bit;
    if (larger * larger <= n) root = larger;
  }
  return root;
}

DiscreteGaussian::DiscreteGaussian(int64_t variance) {
  if (variance < 1) {
    throw InvalidArgument(fmt::format("a discrete Gaussian of variance {}", variance), "",
                          "1 is the least");
  }
  if (variance > kMostGaussianVariance) {
    throw InvalidArgument(
        fmt::format("the step is too small for the noise: its variance is {} steps^2, at most {}",
                    variance, kMostGaussianVariance));
  }
  variance_ = static_cast<uint64_t>(variance);
  scale_ = integer_root(variance_) + 1;
  denominator_ = 2 * static_cast<Uint128>(variance_) * scale_ * scale_;
}

Skellam::Skellam(int64_t variance) : half_(variance / 2) {
  if (variance % 2 == 0 && 2 <= variance && variance <= kMostSkellamVariance) return;
  throw InvalidArgument(
      fmt::format("Skellam noise of variance {}", variance), "",
      fmt::format("an even number from 2 to {} steps^2; a larger step makes it smaller",
                  kMostSkellamVariance));
}

}  // namespace hanse
