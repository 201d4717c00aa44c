// A step of DP-SGD: who is drawn, the lattice, its noise, and what a sample moves.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/private_steps.hpp"
#include "support/chi_square.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

const CipherKey kKey = CipherKey::of_numbers(std::array<uint64_t, 1>{7});

TEST(PrivateSteps, EachSampleIsDrawnWithItsRate) {
  CipherStream words(kKey);
  constexpr int64_t kSamples = 12, kBatch = 3, kSteps = 4000;
  std::vector<int64_t> of_sample(kSamples), of_size(kSamples + 1);
  std::vector<int32_t> taken;
  for (int64_t step = 0; step < kSteps; ++step) {
    draw_batch(words, kSamples, kBatch, taken);
    EXPECT_TRUE(std::ranges::is_sorted(taken));
    for (const int32_t sample : taken) ++of_sample[static_cast<std::size_t>(sample)];
    ++of_size[taken.size()];
  }
  expect_equally_likely(of_sample);
  // Binomial: the sizes 0 to 6, and larger ones.
  std::vector<double> law;
  double rest = 1;
  for (int k = 0; k <= 6; ++k) {
    law.push_back(std::exp(std::lgamma(13) - std::lgamma(k + 1) - std::lgamma(13 - k)) *
                  std::pow(0.25, k) * std::pow(0.75, 12 - k));
    rest -= law.back();
  }
  law.push_back(rest);
  std::vector<int64_t> counts(of_size.begin(), of_size.begin() + 7);
  counts.push_back(kSteps);
  for (int k = 0; k < 7; ++k) counts.back() -= counts[static_cast<std::size_t>(k)];
  expect_frequencies(counts, law);
  draw_batch(words, 5, 5, taken);
  EXPECT_EQ(taken, (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST(PrivateSteps, GradientsAreClippedToALittleLessThanTheBound) {
  PrivacyOptions options;
  options.clip = 0.75;
  const StepNoise noise = StepNoise::of(options, 2, 10000, 1000);
  EXPECT_EQ(noise.lattice.exponent, -24);  // 2^-24 of 1.5, rounded down
  EXPECT_EQ(noise.lattice.bound, int64_t{3} << 22);
  // sqrt(10000), 1 for the rest, and 2^-11 of the clip for sums in float32.
  EXPECT_EQ(noise.clip, 0.75 - (101 + 6169) * 0x1p-24);
  EXPECT_EQ(noise.variance, int64_t{9} << 46);
  EXPECT_EQ(noise.deviation(), 1.5);
  EXPECT_EQ(noise.released().bound, noise.lattice.bound);
  EXPECT_EQ(noise.released().variance, noise.variance);
}

TEST(PrivateSteps, ALatticeMustHoldTheClip) {
  PrivacyOptions options;
  options.step.exponent = -4;
  expect_error<InvalidArgument>([&] { StepNoise::of(options, 1, 10000, 10); },
                                {"10000 parameters", "privacy.step"});
  EXPECT_EQ(StepNoise::of(options, 1, 9, 10).clip, 11 * 0x1p-4);  // 3 + 2 steps less
  options.step.exponent = -44;
  expect_error<InvalidArgument>([&] { StepNoise::of(options, 1, 9, 10); }, {"noise"});
  expect_error<InvalidArgument>([&] { StepNoise::of(options, 0, 9, int64_t{1} << 20); },
                                {"integers do not hold", "privacy.step"});
}

TEST(PrivateSteps, TheMeanIsTheRoundedSumWithNoise) {
  PrivacyOptions options;
  options.step.exponent = -3;
  options.clip = 4;
  StepNoise noise = StepNoise::of(options, 0, 3, 10);
  const std::vector<double> sum{1.0, -0.4374, 0.4376};
  std::vector<int64_t> integers(3);
  std::vector<float> mean(3);
  take_noised_mean(noise, kKey, sum, 2, integers, mean);
  EXPECT_EQ(integers, (std::vector<int64_t>{8, -3, 4}));
  EXPECT_EQ(mean, (std::vector<float>{0.5F, -0.1875F, 0.25F}));
  noise = StepNoise::of(options, 1, 3, 10);
  std::vector<int64_t> noised(3);
  take_noised_mean(noise, kKey, sum, 2, noised, mean);
  EXPECT_NE(noised, integers);
  std::vector<int64_t> again(3);
  take_noised_mean(noise, kKey, sum, 2, again, mean);
  EXPECT_EQ(again, noised);
  take_noised_mean(noise, kKey.derived(1), sum, 2, again, mean);
  EXPECT_NE(again, noised);
}

// With a sample or without it: the rounded sums differ by the bound at most.
TEST(PrivateSteps, ASampleMovesTheIntegersByTheBoundAtMost) {
  PrivacyOptions options;
  options.step.exponent = -4;
  const int64_t n = 9;
  const StepNoise noise = StepNoise::of(options, 0, n, 1);  // |C| = 16 steps, 5 for rounding
  CipherStream words(kKey);
  const auto uniform = [&] { return static_cast<double>(words.next() >> 11) * 0x1p-53 - 0.5; };
  int64_t most = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> with(n), without(n);
    double squares = 0;
    std::vector<double> gradient(n);
    for (double& value : gradient) {
      value = uniform();
      squares += value * value;
    }
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      without[j] = 3 * uniform();
      with[j] = without[j] + gradient[j] * noise.clip / std::sqrt(squares);
    }
    std::vector<int64_t> a(n), b(n);
    std::vector<float> mean(n);
    take_noised_mean(noise, kKey, with, 1, a, mean);
    take_noised_mean(noise, kKey, without, 1, b, mean);
    int64_t moved = 0;
    for (std::size_t j = 0; j < a.size(); ++j) moved += (a[j] - b[j]) * (a[j] - b[j]);
    most = std::max(most, moved);
  }
  const int64_t bound = noise.lattice.bound;
  EXPECT_LE(most, bound * bound);
  EXPECT_GT(most, 12 * 12);  // beyond the clip itself: the room for rounding is used
}

}  // namespace
}  // namespace hanse
