#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "rules/aggregation/quadratic.hpp"
#include "rules/aggregation/rows.hpp"
#include "rules/aggregation/simplex.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

MinNorm shortest(const Rows& rows) {
  return min_norm(gram_of(rows), static_cast<int64_t>(rows.size()));
}

TEST(MinNorm, IsTheBestOfAllSupports) {
  for (std::size_t k = 1; k <= 7; ++k) {
    for (uint64_t trial = 0; trial < 10; ++trial) {
      RandomStream random(21, Purpose::kData, k, trial);
      const Rows rows = random_rows(k, k + trial % 3, 0.2 * static_cast<double>(trial), random);
      const MinNorm found = shortest(rows);
      const Numbers none(k, std::numeric_limits<double>::infinity());
      const Numbers best = enumerate_minimum({gram_of(rows), Numbers(k)}, Numbers(k), none);
      expect_near(found.weights, best, 1e-8);
      const Numbers v = combination(best, rows);
      EXPECT_NEAR(found.squared_norm, dot(v, v), 1e-12);
      EXPECT_EQ(found.ridge, 0);
      EXPECT_FALSE(found.stationary);
    }
  }
}

// u_i.v >= |v|^2 for every row, with equality where it has weight; more rows than dimensions too.
TEST(MinNorm, EveryVectorAgreesWithIt) {
  int ridged = 0;
  for (uint64_t trial = 0; trial < 300; ++trial) {
    RandomStream random(22, Purpose::kData, trial);
    const std::size_t k = 2 + trial % 40;
    const Rows rows = random_rows(k, 2 + trial % 23, 3, random);
    const MinNorm found = shortest(rows);
    ridged += found.ridge > 0;
    if (found.stationary) continue;
    const Numbers v = combination(found.weights, rows);
    EXPECT_NEAR(dot(v, v), found.squared_norm, 1e-10 * dot(v, v));
    for (std::size_t i = 0; i < k; ++i) {
      const double product = dot(rows[i], v);
      EXPECT_GE(product, dot(v, v) * (1 - 1e-6)) << trial;
      if (found.weights[i] < 1e-6) continue;
      EXPECT_NEAR(product, dot(v, v), 1e-6 * dot(v, v)) << trial;
    }
  }
  EXPECT_GT(ridged, 50);
}

TEST(MinNorm, SeesZeroInTheHull) {
  for (uint64_t trial = 0; trial < 100; ++trial) {
    RandomStream random(23, Purpose::kData, trial);
    const std::size_t k = 2 + trial % 9;
    Rows rows = random_rows(k, 1 + trial % 13, 0, random);
    const Numbers share(k, 0.3);
    rows.push_back(scaled(combination(share, rows), -1));  // 0 is a combination of all
    EXPECT_TRUE(shortest(rows).stationary) << trial;
    for (double& x : rows.back()) x *= 0.999;  // still inside
    EXPECT_TRUE(shortest(rows).stationary) << trial;
  }
  EXPECT_TRUE(shortest({{1, 2}, {0, 0}, {3, 1}}).stationary);
  EXPECT_EQ(shortest({{1, 2}, {0, 0}, {3, 1}}).weights, (Numbers{0, 1, 0}));
  const MinNorm close = shortest({{1, 1e-4}, {-1, 1e-4}});  // almost opposite
  EXPECT_FALSE(close.stationary);
  EXPECT_NEAR(close.squared_norm, 1e-8, 1e-14);
}

TEST(MinNorm, SharesBetweenParallelVectors) {
  const MinNorm found = shortest({{3, 4}, {3, 4}, {3, 4}});
  expect_near(found.weights, Numbers(3, 1.0 / 3), 1e-5);
  EXPECT_NEAR(found.squared_norm, 25, 1e-12);
  EXPECT_GT(found.ridge, 0);
  EXPECT_LE(found.ridge, 1e-9);
  expect_near(shortest({{6, 8}, {3, 4}}).weights, {0, 1}, 1e-9);  // the shorter one alone
}

TEST(MinNorm, KnowsNoUnits) {
  RandomStream random(24, Purpose::kData);
  const Rows rows = random_rows(5, 8, 0.5, random);
  const Numbers expected = shortest(rows).weights;
  for (const double unit : {1e-12, 1e9}) {
    Rows other = rows;
    for (Numbers& row : other) row = scaled(row, unit);
    expect_near(shortest(other).weights, expected, 1e-12);
  }
}

// Orthogonal rows have weights ~ 1 / |u|^2, however different they are.
TEST(MinNorm, OfVeryDifferentLengths) {
  const auto weights = shortest({{1, 0, 0}, {0, 1e-5, 0}, {0, 0, 2e-5}}).weights;
  const double sum = 1 + 1e10 + 0.25e10;
  EXPECT_NEAR(weights[0], 1 / sum, 1e-5 / sum);
  EXPECT_NEAR(weights[1], 0.8, 1e-9);
  EXPECT_NEAR(weights[2], 0.2, 1e-9);
}

TEST(MinNorm, RefusesWhatIsNoGramMatrix) {
  const auto refuses = [](const Numbers& gram) {
    expect_error<InvalidArgument>([&] { min_norm(gram, 2); }, {"no Gram matrix", "hint: "});
  };
  refuses({1, 2, 2, 1});
  refuses({1, 0, 0, -1});
  refuses({1, NAN, NAN, 1});
}

}  // namespace
}  // namespace hanse
