// Noise of a block of a sum: its variance, its shares, and where it wraps.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/noise.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr Mechanism kMechanisms[] = {Mechanism::kDiscreteGaussian, Mechanism::kSkellam,
                                     Mechanism::kGaussian};

std::vector<int64_t> added(const Noise& noise, std::vector<int64_t> sum, uint64_t block = 0) {
  CipherStream words(CipherKey::of_numbers(std::array<uint64_t, 1>{1}), block);
  noise.add(words, sum);
  return sum;
}

TEST(Noise, HasMeanZeroAndItsVarianceAndNoMemory) {
  for (const Mechanism mechanism : kMechanisms) {
    const auto x = added(Noise(mechanism, 100), std::vector<int64_t>(10000));
    double mean = 0, variance = 0, lag = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto value = static_cast<double>(x[i]);
      mean += value / 10000;
      variance += value * value / 10000;
      if (i > 0) lag += value * static_cast<double>(x[i - 1]) / 10000;
    }
    EXPECT_NEAR(mean, 0, 5 * 10 / 100.0);
    EXPECT_NEAR(variance, 100, 5 * 100 * std::sqrt(2.0) / 100);
    EXPECT_NEAR(lag, 0, 5 * 100 / 100.0);
  }
}

TEST(Noise, IsAddedToWhatIsThereModulo2To64) {
  for (const Mechanism mechanism : kMechanisms) {
    const Noise noise(mechanism, 100);
    const auto plain = added(noise, std::vector<int64_t>(64));
    const auto most = std::numeric_limits<int64_t>::max();
    const auto shifted = added(noise, std::vector<int64_t>(64, most));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(static_cast<uint64_t>(shifted[i]) - static_cast<uint64_t>(most),
                static_cast<uint64_t>(plain[i]));
    }
    EXPECT_NE(added(noise, std::vector<int64_t>(64), 1), plain);
  }
}

TEST(Noise, OfVarianceZeroIsNone) {
  for (const Mechanism mechanism : kMechanisms) {
    EXPECT_EQ(added(Noise(mechanism, 0), {1, 2}), (std::vector<int64_t>{1, 2}));
  }
}

TEST(Noise, SharesSumToAtLeastTheWhole) {
  EXPECT_EQ(Noise::share(Mechanism::kDiscreteGaussian, 100, 10), 10);
  EXPECT_EQ(Noise::share(Mechanism::kDiscreteGaussian, 101, 10), 11);
  EXPECT_EQ(Noise::share(Mechanism::kSkellam, 101, 10), 12);
  EXPECT_EQ(Noise::share(Mechanism::kSkellam, 100, 10), 10);
  EXPECT_EQ(Noise::share(Mechanism::kGaussian, 0, 10), 0);
}

TEST(Noise, ThatCannotBeDrawnIsRefused) {
  expect_error<InvalidArgument>([] { Noise(Mechanism::kSkellam, 3); }, {"even number"});
  expect_error<InvalidArgument>([] { Noise(Mechanism::kDiscreteGaussian, -1); }, {"variance -1"});
  expect_error<InvalidArgument>(
      [] { Noise(Mechanism::kDiscreteGaussian, kMostGaussianVariance + 1); }, {"too small"});
}

}  // namespace
}  // namespace hanse
