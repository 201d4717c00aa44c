// Updates on the lattice: what is written is as short as it must be, also where floats round.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/rules/privacy/clipping.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;
using Integers = std::vector<int64_t>;

ClippedUpdate clip(const Row& row, const Lattice& lattice, Integers& z, double weight = 1) {
  z.assign(row.size(), -1);
  return clip_to_lattice(row, weight, lattice, z);
}

double length(const Integers& z) {
  double squares = 0;
  for (const int64_t entry : z) squares += static_cast<double>(entry) * static_cast<double>(entry);
  return std::sqrt(squares);
}

TEST(Clipping, AShortUpdateIsRoundedTowardZero) {
  Integers z;
  const auto result = clip({0.3F, -0.3F, 0.25F, 0}, Lattice::of(1, -2), z);
  EXPECT_EQ(z, (Integers{1, -1, 1, 0}));
  EXPECT_FALSE(result.is_clipped || result.is_zeroed);
  EXPECT_EQ(result.shortened, 0);
  EXPECT_NEAR(result.norm, std::sqrt(2 * .09 + .0625), 1e-7);
}

TEST(Clipping, ALongUpdateKeepsItsDirectionAndGetsTheLengthOfTheClip) {
  Integers z;
  const auto result = clip({30, -40}, Lattice::of(10, -20), z);
  EXPECT_TRUE(result.is_clipped);
  EXPECT_EQ(result.norm, 50);
  EXPECT_NEAR(static_cast<double>(z[0]), 6 * 0x1p20, 1);
  EXPECT_NEAR(static_cast<double>(z[1]), -8 * 0x1p20, 1);
}

TEST(Clipping, AWeightIsPartOfTheLength) {
  Integers z;
  clip({30, -40}, Lattice::of(10, -20), z, 0.5);
  EXPECT_NEAR(length(z), 5 * 0x1p20, 2);
  clip({3, -4}, Lattice::of(10, -20), z, 0.25);
  EXPECT_EQ(z, (Integers{3 << 18, -(4 << 18)}));
  clip({3, -4}, Lattice::of(10, -20), z, 0);
  EXPECT_EQ(z, (Integers{0, 0}));
}

TEST(Clipping, TheBoundIsWholeSteps) {
  const Lattice lattice = Lattice::of(1.3, -1);
  EXPECT_EQ(lattice.bound, 2);
  EXPECT_EQ(lattice.clip(), 1);
  Integers z;
  EXPECT_TRUE(clip({1.2F}, lattice, z).is_clipped);
  EXPECT_EQ(z, (Integers{2}));
}

// Each vector is within the bound; how many the audit found too long at first.
int64_t audited(const std::vector<Row>& rows, const Lattice& lattice) {
  int64_t shortened = 0;
  for (const Row& row : rows) {
    Integers z;
    const auto result = clip(row, lattice, z);
    EXPECT_TRUE(is_within(z, lattice.bound)) << row.size() << ' ' << row[0];
    EXPECT_FALSE(result.is_zeroed);
    if (result.is_clipped) {
      const auto slack = 2 * std::sqrt(static_cast<double>(row.size())) + 1;
      EXPECT_GT(length(z), static_cast<double>(lattice.bound) * (1 - 0x1p-38) - slack);
    }
    shortened += result.shortened > 0 ? 1 : 0;
  }
  return shortened;
}

TEST(Clipping, NormsBesideTheClipStayWithinTheBound) {
  RandomStream words(1, Purpose::kData);
  std::vector<Row> rows;
  for (const int64_t n : {1, 2, 3, 7, 64, 1000}) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      Row row(static_cast<std::size_t>(n));
      double squares = 0;
      for (float& u : row) {
        u = static_cast<float>(words.normal());
        squares += static_cast<double>(u) * u;
      }
      const double factor = (1 + (repeat % 3 - 1) * 0x1p-24) / std::sqrt(squares);
      for (float& u : row) u = static_cast<float>(u * factor);
      rows.push_back(row);
    }
  }
  audited(rows, Lattice::of(1, -20));
  audited(rows, Lattice::of(1, -44));
  audited(rows, Lattice::of(0.7, -44));
  audited(rows, Lattice::of(0.1, -3 - 20));
}

TEST(Clipping, AVectorThatRoundingMakesTooLongIsShortened) {
  // One entry is the whole length: weight (C / |u|) u / step may be C / step + 1/2 of a last place.
  RandomStream words(2, Purpose::kData);
  std::vector<Row> rows;
  for (int i = 0; i < 3000; ++i) {
    rows.push_back({static_cast<float>(1 + 100 * words.uniform())});
    rows.push_back({0, static_cast<float>(1 + 100 * words.uniform()), 0});
  }
  // A bound near 2^53 has no whole number beside it that rounding could not reach.
  EXPECT_GT(
      audited(rows, Lattice::of(0x1p9 - 0x1p-44, -44)) + audited(rows, {-60, (1LL << 61) - 1}), 0);
}

TEST(Clipping, AWholeMillionOfEntriesIsWithin) {
  RandomStream words(3, Purpose::kData);
  Row row(1000000);
  for (float& u : row) u = static_cast<float>(words.normal());
  audited({row}, Lattice::of(1, -44));
  audited({row}, Lattice::of(1, -20));
}

TEST(Clipping, ExtremeEntriesStayWithin) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  Integers z;
  EXPECT_FALSE(clip({tiny, -tiny}, Lattice::of(1, -44), z).is_clipped);
  EXPECT_EQ(z, (Integers{0, 0}));
  const auto result = clip({huge, tiny, -1}, Lattice::of(1, -44), z);
  EXPECT_TRUE(result.is_clipped);
  EXPECT_TRUE(is_within(z, int64_t{1} << 44));
  EXPECT_GT(z[0], (int64_t{1} << 44) - 2);
  EXPECT_EQ(z[1], 0);
  clip({0, 0}, Lattice::of(1, -44), z);
  EXPECT_EQ(z, (Integers{0, 0}));
}

TEST(Clipping, WhatIsNoNumberIsReportedAndWritesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Integers z;
    EXPECT_FALSE(std::isfinite(clip({1, bad}, Lattice::of(1, -20), z).norm));
    EXPECT_EQ(z, (Integers{0, 0}));
  }
}

TEST(Clipping, TheAuditIsExactBeyondDoubles) {
  const int64_t bound = (int64_t{1} << 62) - 1;
  EXPECT_TRUE(is_within(Integers{bound}, bound));
  EXPECT_TRUE(is_within(Integers{-bound, 0}, bound));
  EXPECT_FALSE(is_within(Integers{bound, 1}, bound));
  EXPECT_FALSE(is_within(Integers{bound + 1}, bound));
  EXPECT_FALSE(is_within(Integers{std::numeric_limits<int64_t>::min()}, bound));
  EXPECT_TRUE(is_within(Integers{3, 4}, 5));
  EXPECT_FALSE(is_within(Integers{3, 4, 1}, 5));
  EXPECT_TRUE(is_within(Integers{}, 0));
}

TEST(Clipping, CountsTellWhatTheAuditsFound) {
  ClipCounts counts;
  counts.count({.norm = 2, .is_clipped = true, .shortened = 3});
  counts.count({.norm = 1, .is_zeroed = true});
  EXPECT_EQ(counts.updates, 2);
  EXPECT_EQ(counts.clipped, 1);
  EXPECT_EQ(counts.shortened, 1);
  EXPECT_EQ(counts.zeroed, 1);
}

TEST(Clipping, TheVarianceOfTheNoiseIsRoundedUpInIntegers) {
  const auto variance = [](double multiplier, int64_t bound) {
    return Lattice{-20, bound}.noise_variance(multiplier);
  };
  EXPECT_EQ(variance(0, 1000), 0);
  EXPECT_EQ(variance(1, 1000), 1000000);
  EXPECT_EQ(variance(1.5, 3), 21);  // 20.25
  EXPECT_EQ(variance(2, 5), 100);
  EXPECT_EQ(variance(1 + 0x1p-52, 1 << 20), (int64_t{1} << 40) + 1);  // one float above 2^40
  EXPECT_EQ(variance(1.1, 10), 122);  // 1.1 is above 11/10: 121.00000000000002
  EXPECT_EQ(variance(0x1p-30, int64_t{1} << 50), int64_t{1} << 40);
  EXPECT_EQ(variance(0x1p20, 256), int64_t{1} << 56);
  EXPECT_EQ(variance(1.2345678901234567, 987654), 1486755686874);
  expect_error<InvalidArgument>([&] { variance(0x1p20, 257); }, {"step is too small"});
  expect_error<InvalidArgument>([&] { variance(1, int64_t{1} << 40); }, {"step is too small"});
}

TEST(Clipping, TheStepIsTheLargestPowerOfTwoThatTheNoiseAllows) {
  EXPECT_EQ(step_exponent(1), -20);
  EXPECT_EQ(step_exponent(std::nextafter(1, 0)), -21);
  EXPECT_EQ(step_exponent(1.99), -20);
  EXPECT_EQ(step_exponent(0x1p30), 0);
  EXPECT_EQ(step_exponent(1e-12), -44);
  EXPECT_EQ(step_exponent(1, 16, -33), -16);
  EXPECT_EQ(step_exponent(1e-12, 16, -33), -33);
}

TEST(Clipping, AClipBelowAStepIsRefused) {
  expect_error<InvalidArgument>([] { Lattice::of(0.2, -2); }, {"at least one"});
  expect_error<InvalidArgument>([] { Lattice::of(0x1p20, -44); }, {"a larger step"});
  EXPECT_EQ(Lattice::of(0.25, -2).bound, 1);
}

}  // namespace
}  // namespace hanse
