// Lower bounds of epsilon from scores.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/privacy/audit.hpp"

namespace hanse {
namespace {

// P(at most `count` of `runs`) at probability p.
double at_most(int64_t count, int64_t runs, double p) {
  double sum = 0;
  for (int64_t k = 0; k <= count; ++k) {
    const auto n = static_cast<double>(runs), i = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) +
                    i * std::log(p) + (n - i) * std::log1p(-p));
  }
  return sum;
}

TEST(Audit, BoundsAreWhereTheCountIsAsRareAsTheError) {
  for (const int64_t runs : {10, 500}) {
    for (const int64_t count : {int64_t{1}, runs / 3, runs - 1}) {
      const double least = least_probability(count, runs, 0.025);
      const double most = most_probability(count, runs, 0.025);
      EXPECT_NEAR(at_most(count - 1, runs, least), 0.975, 1e-9);
      EXPECT_NEAR(at_most(count, runs, most), 0.025, 1e-9);
    }
  }
  EXPECT_EQ(least_probability(0, 10, 0.025), 0);
  EXPECT_EQ(most_probability(10, 10, 0.025), 1);
  EXPECT_NEAR(most_probability(0, 10, 0.025), 1 - std::pow(0.025, 0.1), 1e-12);
}

// The second half counts alone: 0, 1, ..., with a chosen share above.
AuditScores scores_of(int64_t runs, int64_t with, int64_t without) {
  AuditScores scores;
  for (int half = 0; half < 2; ++half) {
    for (int64_t run = 0; run < runs; ++run) {
      scores.with.push_back(run < with ? 1 : 0);
      scores.without.push_back(run < without ? 1 : 0);
    }
  }
  return scores;
}

TEST(Audit, EpsilonIsThatOfTheBoundsInEitherDirection) {
  const double delta = 0.01;
  const AuditBound above = audited_epsilon(scores_of(100, 60, 5), delta, 0.95);
  EXPECT_TRUE(above.event.is_above);
  EXPECT_EQ(above.event.with, 60);
  EXPECT_EQ(above.event.without, 5);
  EXPECT_NEAR(
      above.epsilon,
      std::log((least_probability(60, 100, 0.025) - delta) / most_probability(5, 100, 0.025)),
      1e-12);
  // With the client nearly always; without it often not.
  const AuditBound below = audited_epsilon(scores_of(100, 99, 30), delta, 0.95);
  EXPECT_FALSE(below.event.is_above);
  EXPECT_EQ(below.event.without, 70);
  EXPECT_NEAR(
      below.epsilon,
      std::log((least_probability(70, 100, 0.025) - delta) / most_probability(1, 100, 0.025)),
      1e-12);
}

TEST(Audit, WhatIsAlikeShowsNothingThoughTheFirstHalfDiffers) {
  EXPECT_EQ(audited_epsilon(scores_of(100, 50, 50), 1e-5, 0.95).epsilon, 0);
  AuditScores scores = scores_of(100, 50, 50);
  for (int run = 0; run < 100; ++run) scores.with[run] = 7;
  EXPECT_EQ(audited_epsilon(scores, 1e-5, 0.95).epsilon, 0);
}

TEST(Audit, TheTradeOffHasAPointForEachScore) {
  const auto curve = trade_off({{9, 9, 1, 2, 3, 4}, {9, 9, 9, 0, 2, 5}});
  ASSERT_EQ(curve.size(), 5);  // 0, 2, 3, 4, 5
  EXPECT_EQ(curve[1].threshold, 2);
  EXPECT_NEAR(curve[1].with, 2.0 / 3, 1e-12);
  EXPECT_NEAR(curve[1].without, 1.0 / 3, 1e-12);
}

}  // namespace
}  // namespace hanse
