// The clip that follows a quantile, and what its count costs.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/adaptive_clip.hpp"
#include "hanse/rules/privacy/renyi.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

TEST(AdaptiveClip, StepsByTheShareWithinTheClip) {
  const AdaptiveClip clip{.quantile = 0.5, .rate = 0.2, .count_noise = 5, .expected = 100};
  EXPECT_EQ(clip.next(0.1, 0), 0.1);  // as many within as beyond
  EXPECT_DOUBLE_EQ(clip.next(0.1, 100), 0.1 * std::exp(-0.1));
  EXPECT_DOUBLE_EQ(clip.next(0.1, -100), 0.1 * std::exp(0.1));
  EXPECT_DOUBLE_EQ(clip.next(0.1, -50), 0.1 * std::exp(0.05));
  // Noise may put the share beyond its ends.
  EXPECT_EQ(clip.next(0.1, 170), clip.next(0.1, 100));
  EXPECT_EQ(clip.next(0.1, -170), clip.next(0.1, -100));
}

TEST(AdaptiveClip, CountsWhoIsWithin) {
  EXPECT_EQ(AdaptiveClip::bit(1, 1), 1);
  EXPECT_EQ(AdaptiveClip::bit(1.5, 1), -1);
  EXPECT_EQ((AdaptiveClip{.count_noise = 5}).count_variance(), 100);
  EXPECT_EQ((AdaptiveClip{.count_noise = 2.6}).count_variance(), 28);  // 27.04
}

TEST(AdaptiveClip, FindsTheQuantileOfNorms) {
  const AdaptiveClip clip{.quantile = 0.8, .rate = 0.2, .count_noise = 5, .expected = 100};
  double c = 0.1;
  for (int round = 0; round < 300; ++round) {
    int64_t sum = 0;
    for (int i = 1; i <= 100; ++i) sum += AdaptiveClip::bit(0.05 * i, c);
    c = clip.next(c, sum);
  }
  EXPECT_NEAR(c, 4, 0.2);
}

TEST(AdaptiveClip, UpdatesAndCountTogetherCostWhatTheNoiseSays) {
  const AdaptiveClip clip{.count_noise = 5, .expected = 100};
  const double z = clip.update_multiplier(1);
  EXPECT_NEAR(z, 1.005037815259212, 1e-14);
  // Both are Gaussian: their curves add up. The bit moves the count by 1.
  const double both = discrete_gaussian_renyi(1, z * z)(8) + discrete_gaussian_renyi(1, 100)(8);
  EXPECT_NEAR(both, discrete_gaussian_renyi(1, 1)(8), 1e-12);
}

TEST(AdaptiveClip, ACountThatCostsAllIsRefused) {
  const AdaptiveClip clip{.count_noise = 0.5, .expected = 10};
  expect_error<InvalidArgument>([&] { clip.update_multiplier(1); },
                                {"privacy.count-noise", "above 0.5"});
  EXPECT_GT(clip.update_multiplier(0.999), 20);
}

}  // namespace
}  // namespace hanse
