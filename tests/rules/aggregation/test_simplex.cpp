#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "rules/aggregation/quadratic.hpp"
#include "rules/aggregation/simplex.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

double distance(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// The nearest point among those of every support: v shifted on it to the sum 1, where feasible.
Numbers enumerate_projection(const Numbers& v) {
  const std::size_t k = v.size();
  Numbers best;
  for (std::size_t support = 1; support < (std::size_t{1} << k); ++support) {
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < k; ++i) {
      if ((support >> i) & 1) sum += v[i], ++count;
    }
    Numbers p(k);
    bool feasible = true;
    for (std::size_t i = 0; i < k; ++i) {
      if ((support >> i) & 1) p[i] = v[i] - (sum - 1) / count;
      feasible = feasible && p[i] >= 0;
    }
    if (feasible && (best.empty() || distance(p, v) < distance(best, v))) best = p;
  }
  return best;
}

TEST(Projection, IsTheNearestPointOfAllSupports) {
  for (std::size_t k = 1; k <= 10; ++k) {
    for (uint64_t trial = 0; trial < 20; ++trial) {
      RandomStream random(1, Purpose::kData, k, trial);
      const Numbers v = random_vector(k, trial % 2 ? 2 : 0.2, random);
      expect_near(project_to_simplex(v), enumerate_projection(v), 1e-13);
    }
  }
}

TEST(Projection, Invariances) {
  RandomStream random(2, Purpose::kData);
  for (const std::size_t k : {2, 3, 50, 1001}) {
    const Numbers v = random_vector(k, 1, random);
    const Numbers p = project_to_simplex(v);
    EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-13);
    EXPECT_GE(*std::min_element(p.begin(), p.end()), 0);
    expect_near(project_to_simplex(p), p, 1e-13);  // its points stay
    Numbers shifted = v;
    for (double& x : shifted) x += 3.25;
    expect_near(project_to_simplex(shifted), p, 1e-13);
    Numbers reversed(v.rbegin(), v.rend());
    expect_near(project_to_simplex(reversed), Numbers(p.rbegin(), p.rend()), 1e-15);
  }
}

TEST(Projection, TiesAndExtremes) {
  EXPECT_EQ(project_to_simplex(Numbers{-7}), Numbers{1});
  EXPECT_EQ(project_to_simplex(Numbers(4, 1e6)), Numbers(4, 0.25));
  EXPECT_EQ(project_to_simplex(Numbers{0, 5, 4}), (Numbers{0, 1, 0}));  // just outside the support
  EXPECT_EQ(project_to_simplex(Numbers{1e300, -1e300, 0}), (Numbers{1, 0, 0}));
}

// Starts with every client, one client, and half of them in the support.
std::vector<Numbers> starts(std::size_t k) {
  Numbers uniform(k, 1.0 / static_cast<double>(k));
  Numbers half(k);
  for (std::size_t i = 0; i < k; i += 2) half[i] = 2.0 / static_cast<double>(k + 1);
  return {uniform, one_hot(k, 0), one_hot(k, k - 1), half};
}

TEST(Minimize, MeetsTheOptimalityConditions) {
  for (const std::size_t k : {1, 2, 3, 10, 100, 500}) {
    for (std::size_t s = 0; s < std::size(kShapes); ++s) {
      const Shape& shape = kShapes[s];
      RandomStream random(3, Purpose::kData, k, s);
      const Quadratic problem = random_problem(k, shape, random);
      Numbers first;
      for (const Numbers& start : starts(k)) {
        if (k > 100 && start == starts(k)[3]) continue;  // enough, and slow
        const auto p = minimize_on_simplex(problem.h, problem.c, start);
        EXPECT_LT(kkt_residual(problem.h, problem.c, p), 1e-12) << k << " shape " << s;
        if (first.empty()) first = p;
        expect_near(p, first, 1e-9);
      }
    }
  }
}

TEST(Minimize, AThousandClients) {
  RandomStream random(4, Purpose::kData);
  const Quadratic problem = random_problem(1000, {30, 4, 1e-4, 1, 4, true}, random);
  const auto p = minimize_on_simplex(problem.h, problem.c, Numbers(1000, 1e-3));
  EXPECT_LT(kkt_residual(problem.h, problem.c, p), 1e-12);
  const auto on = std::count_if(p.begin(), p.end(), [](double share) { return share > 0; });
  EXPECT_GT(on, 300);  // a large system, and not all of it
  EXPECT_LT(on, 950);
}

Numbers enumerate_minimum(const Quadratic& problem) {
  const Numbers none(problem.size(), std::numeric_limits<double>::infinity());
  return enumerate_minimum(problem, Numbers(problem.size()), none);
}

TEST(Minimize, IsTheBestOfAllSupports) {
  for (std::size_t k = 1; k <= 10; ++k) {
    for (std::size_t s = 0; s < std::size(kShapes); ++s) {
      const Shape& shape = kShapes[s];
      RandomStream random(5, Purpose::kData, k, s);
      const Quadratic problem = random_problem(k, shape, random);
      const Numbers expected = enumerate_minimum(problem);
      for (const Numbers& start : starts(k)) {
        expect_near(minimize_on_simplex(problem.h, problem.c, start), expected, 1e-8);
      }
    }
  }
}

// Dense forms of condition up to 1e10, on some of which exchanging all infeasible entries at once
// goes in circles: single exchanges must take over and end.
TEST(Minimize, EndsWhereFullExchangesCycle) {
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    RandomStream random(8, Purpose::kData, trial);
    const std::size_t k = 4 + trial % 17;
    const Quadratic problem =
        random_problem(k, {static_cast<int>(k), 1e-8, 1, trial % 3 ? 0.0 : 5.0, 1, false}, random);
    const auto start = starts(k)[trial % 4];
    const auto p = minimize_on_simplex(problem.h, problem.c, start);
    ASSERT_LT(kkt_residual(problem.h, problem.c, p), 1e-12) << trial;
  }
}

TEST(Minimize, EveryStartingSupportGivesTheSamePoint) {
  RandomStream random(6, Purpose::kData);
  const std::size_t k = 7;
  const Quadratic problem = random_problem(k, {4, 0.1, 1, 2, 3, false}, random);
  const Numbers expected = enumerate_minimum(problem);
  for (std::size_t support = 1; support < (std::size_t{1} << k); ++support) {
    Numbers start(k);
    for (std::size_t i = 0; i < k; ++i) start[i] = static_cast<double>((support >> i) & 1);
    expect_near(minimize_on_simplex(problem.h, problem.c, start), expected, 1e-12);
  }
}

// Many clients on the border of the support (p = 0 and the gradient at its level), and ties.
TEST(Minimize, DegenerateProblemsEnd) {
  const std::size_t k = 12;
  Quadratic border{Numbers(k * k), Numbers(k)};
  for (std::size_t i = 0; i < k; ++i) border.h[i * k + i] = 1;
  for (std::size_t i = 3; i < k; ++i) border.c[i] = 1.0 / 3;  // the level of p = 1/3 on three
  Numbers expected(k);
  std::fill_n(expected.begin(), 3, 1.0 / 3);
  for (const Numbers& start : starts(k)) {
    expect_near(minimize_on_simplex(border.h, border.c, start), expected, 1e-14);
  }
  Quadratic ties = border;
  std::fill(ties.c.begin(), ties.c.end(), -1e6);
  for (const Numbers& start : starts(k)) {
    expect_near(minimize_on_simplex(ties.h, ties.c, start), Numbers(k, 1.0 / k), 1e-12);
  }
}

// A single vertex wins by far, against the direction of the other clients.
TEST(Minimize, FindsAVertex) {
  const std::size_t k = 100;
  RandomStream random(7, Purpose::kData);
  Quadratic problem = random_problem(k, {5, 1e-3, 1e-3, 0, 3, false}, random);
  problem.c[37] = -1e5;
  for (const Numbers& start : starts(k)) {
    expect_near(minimize_on_simplex(problem.h, problem.c, start), one_hot(k, 37), 1e-14);
  }
}

TEST(Minimize, RefusesAFormThatIsNotPositiveDefinite) {
  const Numbers half{0.5, 0.5};
  expect_error<InvalidArgument>(
      [&] {
        minimize_on_simplex(Numbers{1, 2, 2, 1}, Numbers{0, 0}, half);
      },
      {"positive definite", "aggregator", "hint: "});
}

TEST(KktResidual, SeesEachViolation) {
  const Numbers h{2, 0, 0, 2};
  const Numbers c{0, 0};
  EXPECT_EQ(kkt_residual(h, c, Numbers{0.5, 0.5}), 0);
  EXPECT_NEAR(kkt_residual(h, c, Numbers{0.75, 0.25}), 1.0 / 1.5, 1e-15);  // gradients 1.5, 0.5
  EXPECT_NEAR(kkt_residual(h, c, Numbers{0.25, 0.25}), 0.5, 1e-15);        // sum
  EXPECT_NEAR(kkt_residual(h, Numbers{-4, 0}, Numbers{1.25, -0.25}), 0.25 / 1.5, 1e-15);  // p < 0
  EXPECT_NEAR(kkt_residual(h, Numbers{4, 0}, Numbers{1, 0}), 1, 1e-15);  // smaller off it
}

}  // namespace
}  // namespace hanse
