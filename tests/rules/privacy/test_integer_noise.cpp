// Integer noise: known samples of known words, laws by enumeration and by drawing, and what its low
// bits tell.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/privacy/integer_noise.hpp"
#include "support/chi_square.hpp"
#include "support/errors.hpp"
#include "word_sources.hpp"

namespace hanse {
namespace {

using Samples = std::vector<int64_t>;

// The first samples that words of splitmix64 from state 1 make.
template <class Draw>
void expect_samples(const Samples& expected, int64_t words, Draw draw) {
  SplitMix mix;
  UniformWords uniform(mix);
  Samples samples(expected.size());
  for (int64_t& sample : samples) sample = draw(uniform);
  EXPECT_EQ(samples, expected);
  EXPECT_EQ(mix.used, words);
}

TEST(IntegerNoise, TheDiscreteGaussianHasItsKnownSamples) {
  const auto expect = [](int64_t variance, const Samples& expected, int64_t words) {
    const DiscreteGaussian law(variance);
    expect_samples(expected, words, [&](auto& uniform) { return law.draw(uniform); });
  };
  expect(1, {0, 0, 1, -1, 0, 1, 1, 1, -1, 1, 0, -1}, 253);
  expect(4, {1, 1, 3, 2, 2, -1, 2, -3, -1, -3, 3, 1}, 285);
  expect(100, {4, 7, 11, -2, 9, 9, 9, -11, 9, -10, -12, 2}, 132);
  expect(int64_t{1} << 40,
         {-1642660, 423774, -784582, 957025, 560009, -718348, -999179, -1532952, -1036498, -1370411,
          320430, 1128050},
         228);
}

TEST(IntegerNoise, PoissonAndSkellamHaveTheirKnownSamples) {
  expect_samples({3, 2, 1, 0, 0, 3, 0, 0, 0, 2, 1, 0, 4, 0, 2, 2, 1, 0, 1, 1, 0, 0, 0, 2}, 75,
                 [](auto& uniform) { return draw_poisson1(uniform); });
  const Skellam law(8);
  expect_samples({3, -5, 1, 0, 0, -3, 2, -2, -2, 1, 1, 0}, 292,
                 [&](auto& uniform) { return law.draw(uniform); });
}

TEST(IntegerNoise, ABernoulliIsTrueWithItsExponential) {
  for (uint64_t b = 1; b <= 3; ++b) {
    for (uint64_t a = 0; a <= 2 * b; ++a) {
      double yes = 0, no = 0;
      EveryOutcome outcomes(1e-6);
      const double rest = outcomes.each(
          [&](auto& uniform) { return bernoulli_exp(uniform, a, b); },
          [&](bool result, double probability) { (result ? yes : no) += probability; });
      const double expected = std::exp(-static_cast<double>(a) / static_cast<double>(b));
      EXPECT_NEAR(yes + no + rest, 1, 1e-12);
      EXPECT_LT(rest, 1e-2);
      EXPECT_LE(yes, expected + 1e-12) << a << '/' << b;
      EXPECT_LE(no, 1 - expected + 1e-12) << a << '/' << b;
    }
  }
}

TEST(IntegerNoise, WideAndNarrowIntegersMakeTheSameBernoulli) {
  SplitMix narrow, wide;
  UniformWords one(narrow), other(wide);
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t a = i * i % 97;
    EXPECT_EQ(bernoulli_exp(one, a, uint64_t{31}), bernoulli_exp(other, Uint128{a}, Uint128{31}));
  }
  EXPECT_EQ(narrow.used, wide.used);
}

TEST(IntegerNoise, AWideUniformIntegerIsTheRemainderOfTwoWords) {
  struct Given {
    std::vector<uint64_t> words;
    std::size_t used = 0;
    uint64_t next() { return words.at(used++); }
  };
  const Uint128 n = (Uint128{1} << 127) + 5;  // once in 2^128: half of all pairs are drawn again
  Given words{{~uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63, 5, uint64_t{1} << 63, 4}};
  EXPECT_TRUE(uniform_below_wide(words, n) == n - 1);
  EXPECT_EQ(words.used, 6U);
  Given low{{0, 7}};
  EXPECT_TRUE(uniform_below_wide(low, (Uint128{1} << 63) + 1) == 7);
  // 2^128 is a multiple of 2^100: no pair is drawn again.
  Given last{{~uint64_t{0}, ~uint64_t{0}}};
  EXPECT_TRUE(uniform_below_wide(last, Uint128{1} << 100) == (Uint128{1} << 100) - 1);
  Given half{{uint64_t{1} << 63}};
  EXPECT_TRUE(uniform_below_wide(half, Uint128{1} << 63) == Uint128{1} << 62);
  EXPECT_EQ(half.used, 1U);
}

TEST(IntegerNoise, PoissonHasItsLaw) {
  std::map<int64_t, double> law;
  EveryOutcome outcomes(1e-8);
  const double rest = outcomes.each([](auto& uniform) { return draw_poisson1(uniform); },
                                    [&](int64_t x, double probability) { law[x] += probability; });
  EXPECT_LT(rest, 1e-3);
  double expected = std::exp(-1.0);
  for (int64_t x = 0; x < 6; ++x, expected /= static_cast<double>(x)) {
    EXPECT_LE(law[x], expected + 1e-12) << x;
    EXPECT_GE(law[x], expected - rest) << x;
  }
}

// How often samples fall into the cells {<= first}, {first + 1}, ..., {>= last}.
template <class Draw>
std::vector<int64_t> cells(int64_t first, int64_t last, int64_t samples, Draw draw) {
  std::vector<int64_t> counts(static_cast<std::size_t>(last - first + 1));
  RandomStream words(3, Purpose::kData);
  UniformWords uniform(words);
  for (int64_t i = 0; i < samples; ++i) {
    ++counts[static_cast<std::size_t>(std::clamp(draw(uniform), first, last) - first)];
  }
  return counts;
}

std::vector<double> tails_folded(int64_t last, const std::vector<double>& upper) {
  std::vector<double> law;  // upper[x] is P(x), x >= 0; of both signs
  double tail = 0;
  for (std::size_t x = static_cast<std::size_t>(last); x < upper.size(); ++x) tail += upper[x];
  for (int64_t x = -last; x <= last; ++x) {
    law.push_back(std::abs(x) == last ? tail : upper[static_cast<std::size_t>(std::abs(x))]);
  }
  return law;
}

TEST(IntegerNoise, TheDiscreteGaussianHasItsLaw) {
  std::vector<double> upper(60);
  double all = 0;
  for (int64_t x = -59; x < 60; ++x) all += std::exp(-static_cast<double>(x * x) / 8);
  for (std::size_t x = 0; x < 60; ++x) upper[x] = std::exp(-static_cast<double>(x * x) / 8) / all;
  EXPECT_NEAR(upper[0], .1994711402, 1e-10);
  EXPECT_NEAR(upper[1], .1760326634, 1e-10);
  EXPECT_NEAR(upper[5], .0087641502, 1e-10);
  const DiscreteGaussian law(4);
  expect_frequencies(cells(-5, 5, 1000000, [&](auto& uniform) { return law.draw(uniform); }),
                     tails_folded(5, upper));
}

TEST(IntegerNoise, ALargeDiscreteGaussianHasTheNormalShares) {
  for (const int bits : {40, 56}) {
    const DiscreteGaussian law(int64_t{1} << bits);
    const int half = bits / 2 - 1;  // cells of half a deviation
    const auto counts = cells(-6, 5, 200000, [&](auto& u) { return law.draw(u) >> half; });
    std::vector<double> shares;
    const auto below = [](int64_t cell) {
      return 0.5 * std::erfc(-static_cast<double>(cell) / 2 / std::numbers::sqrt2);
    };
    for (int64_t cell = -6; cell <= 5; ++cell) {
      shares.push_back((cell == 5 ? 1 : below(cell + 1)) - (cell == -6 ? 0 : below(cell)));
    }
    expect_frequencies(counts, shares);
  }
}

TEST(IntegerNoise, SkellamHasItsLaw) {
  std::vector<double> poisson{std::exp(-2.0)};  // of mean 2
  for (std::size_t x = 1; x < 60; ++x) {
    poisson.push_back(poisson.back() * 2 / static_cast<double>(x));
  }
  std::vector<double> upper(40, 0.0);
  for (std::size_t x = 0; x < upper.size(); ++x) {
    for (std::size_t i = 0; i + x < poisson.size(); ++i) upper[x] += poisson[i] * poisson[i + x];
  }
  const Skellam law(4);
  expect_frequencies(cells(-5, 5, 500000, [&](auto& uniform) { return law.draw(uniform); }),
                     tails_folded(5, upper));
}

TEST(IntegerNoise, ASampleTakesFourteenToNineteenWords) {
  for (const int bits : {2, 20, 40, 56}) {
    SplitMix mix;
    UniformWords uniform(mix);
    const DiscreteGaussian law(int64_t{1} << bits);
    for (int64_t i = 0; i < 20000; ++i) law.draw(uniform);
    const double words = static_cast<double>(mix.used) / 20000;
    EXPECT_GT(words, 14) << bits;
    EXPECT_LT(words, 19) << bits;
  }
}

TEST(IntegerNoise, AnIntegerRootIsExact) {
  for (uint64_t root : {uint64_t{1}, uint64_t{2}, uint64_t{1000}, (uint64_t{1} << 28) + 1}) {
    EXPECT_EQ(integer_root(root * root), root);
    EXPECT_EQ(integer_root(root * root - 1), root - 1);
  }
  EXPECT_EQ(integer_root(0), 0U);
}

TEST(IntegerNoise, AVarianceThatCannotBeDrawnIsRefused) {
  expect_error<InvalidArgument>([] { DiscreteGaussian(0); }, {"variance 0"});
  expect_error<InvalidArgument>([] { DiscreteGaussian(kMostGaussianVariance + 1); },
                                {"the step is too small for the noise"});
  DiscreteGaussian(kMostGaussianVariance + 0);
  for (const int64_t variance : {int64_t{0}, int64_t{7}, kMostSkellamVariance + 2}) {
    expect_error<InvalidArgument>([&] { Skellam{variance}; }, {"Skellam", "even number"});
  }
}

TEST(IntegerNoise, WordsThatMakeAnImpossibleSampleAreAnError) {
  struct Ends {  // each Bernoulli of exp(-1) is true: 0, then one below the bar, then none
    uint64_t count = 0;
    uint64_t below(uint64_t n) {
      if (n == 1) count = 0;
      return ++count == 3 ? n - 1 : 0;
    }
  } ends;
  expect_error<Error>([&] { discrete_laplace(ends, 1); }, {"2^-92"});
}

// How many of these outputs prove which of two values the noise was added to: those within 1/2 of
// 0 that are no multiples of `grid`, which 1 + noise cannot have.
template <class Output>
int64_t telling(double grid, Output output) {
  int64_t count = 0;
  for (int64_t i = 0; i < 10000; ++i) {
    const double y = output();
    count += std::abs(y) < 0.5 && std::remainder(y, grid) != 0 ? 1 : 0;
  }
  return count;
}

TEST(IntegerNoise, LowBitsOfFloatingPointNoiseTellItsCentreAndThoseOfIntegersDoNot) {
  RandomStream words(5, Purpose::kData);
  const double ulp = 0x1p-53;  // of numbers in [1/2, 1), where 1 + N is when it is near 0
  EXPECT_GT(telling(ulp, [&] { return 0 + words.normal(); }), 1000);
  EXPECT_EQ(telling(ulp, [&] { return 1 + words.normal(); }), 0);
  const double step = 0x1p-20;
  const DiscreteGaussian law(int64_t{1} << 40);
  UniformWords uniform(words);
  for (const int64_t centre : {int64_t{0}, int64_t{1} << 20}) {
    EXPECT_EQ(telling(step, [&] { return step * static_cast<double>(centre + law.draw(uniform)); }),
              0);
  }
}

}  // namespace
}  // namespace hanse
