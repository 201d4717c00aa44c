// Quadratic problems on the part of the simplex that lies in a box.
#include <gtest/gtest.h>

#include "rules/aggregation/quadratic.hpp"
#include "rules/aggregation/simplex.hpp"

namespace hanse {
namespace {

struct Bounds {
  Numbers lower;
  Numbers upper;
  Numbers centre;

  operator Box() const { return {lower, upper}; }  // NOLINT: as the solver takes it
};

// |p - centre|_inf <= epsilon in the simplex.
Bounds around(const Numbers& centre, double epsilon) {
  Bounds bounds{.centre = centre};
  for (const double c : centre) {
    bounds.lower.push_back(std::max(0.0, c - epsilon));
    bounds.upper.push_back(std::min(1.0, c + epsilon));
  }
  return bounds;
}

Numbers random_share(std::size_t k, RandomStream& random) {
  Numbers share(k);
  double sum = 0;
  for (double& x : share) sum += x = -std::log(1 - random.uniform());
  for (double& x : share) x /= sum;
  return share;
}

// Any bounds, some below zero, some of no width, that leave a point between.
Bounds random_bounds(std::size_t k, RandomStream& random) {
  Bounds bounds{.centre = random_share(k, random)};
  for (const double c : bounds.centre) {
    const bool fixed = random.below(6) == 0;
    bounds.lower.push_back(fixed ? c : c - 0.3 * random.uniform());
    bounds.upper.push_back(fixed ? c : c + 0.3 * random.uniform());
  }
  return bounds;
}

// Inside the box, all entries at a bound, and outside.
std::vector<Numbers> starts(const Bounds& bounds) {
  Numbers far(bounds.centre.size(), -5);
  for (std::size_t i = 0; i < far.size(); i += 2) far[i] = 5;
  return {bounds.centre, bounds.lower, bounds.upper, far};
}

TEST(Box, IsTheBestOfAllFaces) {
  int inside = 0;
  for (std::size_t k = 1; k <= 6; ++k) {
    for (std::size_t s = 0; s < std::size(kShapes); ++s) {
      for (uint64_t trial = 0; trial < 4; ++trial) {
        RandomStream random(11, Purpose::kData, 100 * k + s, trial);
        const Quadratic problem = random_problem(k, kShapes[s], random);
        const Bounds box = trial % 2 ? random_bounds(k, random)
                                     : around(random_share(k, random), 0.1 + 0.1 * trial);
        const Numbers expected = enumerate_minimum(problem, box.lower, box.upper);
        ASSERT_FALSE(expected.empty());
        for (const Numbers& start : starts(box)) {
          const auto p = minimize_on_simplex(problem.h, problem.c, start, box);
          expect_near(p, expected, 1e-8);
          EXPECT_LT(kkt_residual(problem.h, problem.c, p, box), 1e-12);
        }
        for (std::size_t i = 0; i < k; ++i) {
          inside += expected[i] > box.lower[i] && expected[i] < box.upper[i];
        }
      }
    }
  }
  EXPECT_GT(inside, 100);  // not only corners
}

TEST(Box, MeetsTheOptimalityConditions) {
  for (const std::size_t k : {10, 101, 300}) {
    for (std::size_t s = 0; s < std::size(kShapes); ++s) {
      RandomStream random(12, Purpose::kData, k, s);
      const Quadratic problem = random_problem(k, kShapes[s], random);
      const Bounds box = around(random_share(k, random), 0.5 / static_cast<double>(k));
      Numbers first;
      for (const Numbers& start : {box.centre, box.lower}) {
        const auto p = minimize_on_simplex(problem.h, problem.c, start, box);
        EXPECT_LT(kkt_residual(problem.h, problem.c, p, box), 1e-12) << k << " shape " << s;
        if (first.empty()) first = p;
        expect_near(p, first, 1e-9);
      }
    }
  }
}

// Dense forms of condition up to 1e10 in tight boxes: exchanging all wrong entries at once goes in
// circles or leaves nothing free, and the active set must take over and end.
TEST(Box, EndsWhereExchangesDoNot) {
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    RandomStream random(13, Purpose::kData, trial);
    const std::size_t k = 2 + trial % 19;
    const Quadratic problem =
        random_problem(k, {static_cast<int>(k), 1e-8, 1, trial % 3 ? 0.0 : 5.0, 1, false}, random);
    const Bounds box = trial % 2 ? random_bounds(k, random)
                                 : around(random_share(k, random), 0.3 / static_cast<double>(k));
    const auto p = minimize_on_simplex(problem.h, problem.c, starts(box)[trial % 4], box);
    ASSERT_LT(kkt_residual(problem.h, problem.c, p, box), 1e-12) << trial;
  }
}

TEST(Box, OfOnePointIsThatPoint) {
  RandomStream random(14, Purpose::kData);
  for (const std::size_t k : {1, 2, 7, 50}) {
    const Quadratic problem = random_problem(k, kShapes[0], random);
    const Bounds box = around(random_share(k, random), 0);
    for (const Numbers& start : starts(box)) {
      expect_near(minimize_on_simplex(problem.h, problem.c, start, box), box.centre, 1e-15);
    }
  }
}

TEST(Box, ThatBindsNowhereChangesNothing) {
  for (uint64_t trial = 0; trial < 50; ++trial) {
    RandomStream random(15, Purpose::kData, trial);
    const std::size_t k = 1 + trial % 12;
    const Quadratic problem = random_problem(k, kShapes[trial % std::size(kShapes)], random);
    const Bounds box = around(Numbers(k, 1.0 / static_cast<double>(k)), 1);
    const auto free = minimize_on_simplex(problem.h, problem.c, box.centre);
    const auto bounded = minimize_on_simplex(problem.h, problem.c, box.centre, box);
    expect_near(bounded, free, 1e-12);
  }
}

// By hand: |p - 1/4| <= 1/8 and a slope that wants all of it in the last entry: what it may take
// is taken from the first, whose slope is the largest.
TEST(Box, ByHand) {
  const Numbers ridge{1e-6, 0, 0, 0, 0, 1e-6, 0, 0, 0, 0, 1e-6, 0, 0, 0, 0, 1e-6};
  const Bounds box = around(Numbers(4, 0.25), 0.125);
  const auto p = minimize_on_simplex(ridge, Numbers{4, 3, 2, 1}, box.centre, box);
  expect_near(p, {0.125, 0.125, 0.375, 0.375}, 1e-15);
}

TEST(KktResidual, SeesTheBounds) {
  const Numbers h{2, 0, 0, 2};
  const Numbers c{0, 0};
  const Bounds box{.lower = {0, 0.625}, .upper = {0.5, 0.75}};
  EXPECT_EQ(kkt_residual(h, c, Numbers{0.375, 0.625}, box), 0);      // held at its bound
  EXPECT_EQ(kkt_residual(h, c, Numbers{0.25, 0.75}, box), 1 / 1.5);  // both may move back
  EXPECT_EQ(kkt_residual(h, c, Numbers{0.5, 0.5}, box), 0.125);      // below a lower bound
  EXPECT_EQ(kkt_residual(h, c, Numbers{0.125, 0.875}, box), 1.5 / 1.75);
}

}  // namespace
}  // namespace hanse
