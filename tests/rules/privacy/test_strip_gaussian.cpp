// The discrete Gaussian by strips: its table against digits of another program, its comparisons at
// their edges, and its law.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/rules/privacy/strip_gaussian.hpp"
#include "support/chi_square.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

struct Given {
  std::vector<uint64_t> words;
  std::size_t used = 0;
  uint64_t next() { return words.at(used++); }
};

// Sums of 97/1024 exp(-k^2 / 128), of Python's decimal with 120 digits.
TEST(StripGaussian, TheTableHasTheKnownDigits) {
  const Strips& strips = Strips::all();
  const auto expect = [&](int64_t k, uint64_t high, uint64_t low) {
    EXPECT_EQ(strips.bound(k).high, high) << k;
    EXPECT_EQ(strips.bound(k).low, low) << k;
  };
  expect(0, 0x1840000000000000, 0x0);
  expect(1, 0x304fb05fbacee005, 0x12d88cc8c579742a);
  expect(7, 0xaa9bd0dc77bb7d62, 0xc7d44e8a6f10d91a);
  expect(31, 0xff3f85d85705f6ba, 0xe0ab320c8a8b74a1);
  expect(64, 0xff4497e38898f2b9, 0x8819322be61433c6);
  expect(80, 0xff4497e3889923be, 0xe86bad01ea1ed0c2);
  expect(107, 0xff4497e3889923be, 0xe874600232860c80);
  for (int64_t k = 1; k < Strips::kCount; ++k) {
    const auto &one = strips.bound(k - 1), &next = strips.bound(k);
    EXPECT_TRUE(next.high > one.high || (next.high == one.high && next.low >= one.low)) << k;
  }
}

TEST(StripGaussian, AWordTakesTheFirstStripWhoseBoundIsAboveIt) {
  const Strips& strips = Strips::all();
  for (int64_t k = 0; k < 60; ++k) {
    const Strips::Bound bound = strips.bound(k);
    Given below{{bound.high - 1}}, above{{bound.high + 1}};
    EXPECT_EQ(strips.draw(below), k);
    EXPECT_EQ(strips.draw(above), k + 1);
    if (bound.low > 0) {
      Given tied_below{{bound.high, bound.low - 1}};
      EXPECT_EQ(strips.draw(tied_below), k);
    }
    Given tied_above{{bound.high, bound.low + 2}};
    EXPECT_EQ(strips.draw(tied_above), k + 1);
    for (const uint64_t more : {0, 1}) {
      Given tied{{bound.high, bound.low + more}};
      expect_error<Error>([&] { strips.draw(tied); }, {"2^-120"});
    }
  }
  Given beyond{{~uint64_t{0}, 0}};
  EXPECT_EQ(strips.draw(beyond), 0);
  EXPECT_EQ(beyond.used, 2U);
}

// Every integer is in one strip, at one of the places.
TEST(StripGaussian, StripsPartTheIntegers) {
  for (const int64_t variance : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{63}, int64_t{64},
                                 int64_t{65}, int64_t{1} << 20, kMostGaussianVariance}) {
    const StripGaussian law(variance);
    EXPECT_EQ(law.begin(0), 0);
    for (int64_t k = 0; k <= Strips::kCount; ++k) {
      const auto x = static_cast<Uint128>(law.begin(k));
      const Uint128 edge = static_cast<Uint128>(k * k) * static_cast<Uint128>(variance);
      EXPECT_TRUE(64 * x * x >= edge) << k;
      EXPECT_TRUE(x == 0 || 64 * (x - 1) * (x - 1) < edge) << k;
    }
  }
}

TEST(StripGaussian, TheFirstWordIsComparedWithE) {
  const StripGaussian law(64);  // strip k has the integer k alone, where E = 0
  Given zero{{0}};
  EXPECT_TRUE(law.keeps(zero, 5, 5));
  const StripGaussian wide(256);  // two integers a strip: E of x = 2 k + 1 is (4 k + 1) / 512
  const uint64_t edge = uint64_t{21} << 55;  // k = 5: 21/512 of 2^64
  Given at{{edge}};
  EXPECT_TRUE(wide.keeps(at, 5, 11));  // not below E
  EXPECT_EQ(at.used, 1U);
  // Below E, then not below E/2: two comparisons, so it is false. Below both and not E/3: true.
  Given two{{edge - 1, ~uint64_t{0}}};
  EXPECT_FALSE(wide.keeps(two, 5, 11));
  Given three{{0, 0, ~uint64_t{0}}};
  EXPECT_TRUE(wide.keeps(three, 5, 11));
  EXPECT_EQ(three.used, 3U);
  // The bound of the strip decides without E.
  Given sure{{uint64_t{11} << 57}};
  EXPECT_TRUE(wide.keeps(sure, 5, 11));
}

// 128 s^2 = 384 does not divide 2^64 a: between two words the rest decides.
TEST(StripGaussian, WhatAWordLeavesOpenAUniformIntegerDecides) {
  const StripGaussian law(3);  // E of x = 1 in strip 4: (64 - 48) / 384 = 1/24
  const uint64_t word = ~uint64_t{0} / 24;
  // 2^64 = 24 word + 16: word + delta is below 2^64 / 24 if delta < 16/24.
  Given below{{word, ~uint64_t{0} / 384 * 255, ~uint64_t{0}}};
  EXPECT_FALSE(law.keeps(below, 4, 1));
  EXPECT_EQ(below.used, 3U);
  Given above{{word, ~uint64_t{0} / 384 * 257}};
  EXPECT_TRUE(law.keeps(above, 4, 1));
  EXPECT_EQ(above.used, 2U);
}

// How often draws fall into the cells (edges[i-1], edges[i]], and beyond.
std::vector<int64_t> cells(int64_t variance, const std::vector<int64_t>& edges, int64_t draws) {
  const StripGaussian law(variance);
  RandomStream words(4, Purpose::kData);
  std::vector<int64_t> counts(edges.size() + 1);
  for (int64_t i = 0; i < draws; ++i) {
    const int64_t x = law.draw(words);
    ++counts[static_cast<std::size_t>(std::ranges::lower_bound(edges, x) - edges.begin())];
  }
  return counts;
}

TEST(StripGaussian, HasItsLaw) {
  constexpr int64_t kDraws = 400000;
  for (const int64_t variance : {1, 2, 3, 4, 7, 64, 100}) {
    const auto sd = static_cast<int64_t>(std::sqrt(static_cast<double>(variance)));
    std::vector<int64_t> edges;
    for (int64_t x = -3 * sd; x <= 3 * sd; ++x) edges.push_back(x);
    std::vector<double> law(edges.size() + 1);
    double all = 0;
    for (int64_t x = -20 * sd; x <= 20 * sd; ++x) {
      const double weight =
          std::exp(-static_cast<double>(x * x) / (2 * static_cast<double>(variance)));
      law[static_cast<std::size_t>(std::ranges::lower_bound(edges, x) - edges.begin())] += weight;
      all += weight;
    }
    for (double& probability : law) probability /= all;
    SCOPED_TRACE(variance);
    expect_frequencies(cells(variance, edges, kDraws), law);
  }
}

TEST(StripGaussian, OfALargeVarianceIsNearlyContinuousDownToTheLastBits) {
  constexpr int64_t kDraws = 200000;
  for (const int power : {40, 52, 56}) {
    const double sd = std::ldexp(1, power / 2);
    std::vector<int64_t> edges;
    std::vector<double> law;
    double before = 0;
    for (int i = -30; i <= 30; ++i) {
      edges.push_back(static_cast<int64_t>(sd * i / 10));
      const double below = 0.5 * std::erfc(-i / 10.0 / std::sqrt(2.0));
      law.push_back(below - before);
      before = below;
    }
    law.push_back(1 - before);
    expect_frequencies(cells(int64_t{1} << power, edges, kDraws), law);
    const StripGaussian gaussian(int64_t{1} << power);
    RandomStream words(5, Purpose::kData);
    std::vector<int64_t> residues(257), low(16);
    for (int64_t i = 0; i < kDraws; ++i) {
      const int64_t x = gaussian.draw(words);
      ++residues[static_cast<std::size_t>((x % 257 + 257) % 257)];
      ++low[static_cast<std::size_t>(x & 15)];
    }
    expect_equally_likely(residues);
    expect_equally_likely(low);
  }
}

// 8 strips a deviation: F_k exp(-E) sums up to what DiscreteGaussian has, x by x.
TEST(StripGaussian, RareDrawsBeyondEightDeviationsKeepTheirLaw) {
  const StripGaussian law(256);
  constexpr int64_t kStrip = 70, kDraws = 40000;
  const int64_t x = law.begin(kStrip) + 1;
  const double exponent =
      (64.0 * static_cast<double>(x * x) - kStrip * kStrip * 256.0) / (128 * 256.0);
  RandomStream words(6, Purpose::kData);
  int64_t kept = 0;
  for (int64_t i = 0; i < kDraws; ++i) kept += law.keeps(words, kStrip, x) ? 1 : 0;
  expect_frequencies({kept, kDraws - kept}, {std::exp(-exponent), 1 - std::exp(-exponent)});
}

TEST(StripGaussian, HasTheVariancesOfTheOther) {
  expect_error<InvalidArgument>([] { StripGaussian(0); }, {"variance 0"});
  expect_error<InvalidArgument>([] { StripGaussian(kMostGaussianVariance + 1); }, {"too small"});
}

}  // namespace
}  // namespace hanse
