// Rounds without sampling are one Gaussian: its epsilon in closed form.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "hanse/rules/privacy/loss_distribution.hpp"

namespace hanse {
namespace {

// P(N > e/m - m/2) - e^e P(N > e/m + m/2) in long double.
long double delta_of(long double epsilon, long double moved) {
  const auto above = [](long double x) { return std::erfc(x / std::sqrt(2.0L)) / 2; };
  return above(epsilon / moved - moved / 2) -
         std::exp(epsilon) * above(epsilon / moved + moved / 2);
}

TEST(LossDistribution, WithoutSamplingItIsTheExactGaussian) {
  for (const double deviation : {0.3, 1.0, 5.0, 100.0, 1e4}) {
    for (const int64_t rounds : {1, 100, 1'000'000}) {
      for (const double delta : {1e-3, 1e-5, 1e-12}) {
        const std::array one{GaussianRounds{deviation, 1, rounds}};
        const double epsilon = loss_distribution_epsilon(one, delta);
        const double moved = std::sqrt(static_cast<double>(rounds)) / deviation;
        if (std::isinf(epsilon)) {
          EXPECT_GT(delta_of(600, moved), delta);
        } else if (epsilon == 0) {
          EXPECT_LE(delta_of(0, moved), delta * (1 + 1e-9));
        } else {
          EXPECT_LE(static_cast<double>(delta_of(epsilon, moved)), delta);
          EXPECT_GT(static_cast<double>(delta_of(epsilon * (1 - 1e-6), moved)), delta) << deviation;
        }
      }
    }
  }
}

TEST(LossDistribution, RoundsOfDifferentNoiseAddTheirSquares) {
  const std::array two{GaussianRounds{2, 1, 3}, GaussianRounds{4, 1, 4}};
  const std::array one{GaussianRounds{1, 1, 1}};  // 3/4 + 4/16
  EXPECT_NEAR(loss_distribution_epsilon(two, 1e-5), loss_distribution_epsilon(one, 1e-5), 1e-9);
  EXPECT_NEAR(loss_distribution_epsilon(one, 1e-5), 4.377178, 2e-6);  // as dp-accounting has it
}

TEST(LossDistribution, ARateBelowOneCostsLess) {
  const std::array sampled{GaussianRounds{1, 1 - 0x1p-30, 1}}, whole{GaussianRounds{1, 1, 1}};
  const double exact = loss_distribution_epsilon(whole, 1e-5);
  EXPECT_GE(loss_distribution_epsilon(sampled, 1e-5), exact * (1 - 1e-6));
  EXPECT_LT(loss_distribution_epsilon(sampled, 1e-5), exact * 1.002);
}

}  // namespace
}  // namespace hanse
