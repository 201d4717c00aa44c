#include <gtest/gtest.h>

#include "aggregation/robust/covariance.hpp"
#include "aggregation/robust/krum.hpp"
#include "aggregation/robust/sets.hpp"
#include "rules/aggregation/robust_weights.hpp"

namespace hanse {
namespace {

using Places = std::vector<std::size_t>;
using robust::combinations, robust::krum_margin, robust::krum_scores;

double largest_variance(const GramView& gram, const Numbers& p) {
  const Eigen::Map<const Eigen::VectorXd> shares(p.data(), std::ssize(p));
  EXPECT_NEAR(robust::top_pair(gram, shares).value, robust::largest_variance(gram, shares), 1e-10);
  return robust::largest_variance(gram, shares);
}

// Five rows whose numbers are known by hand.
const Rows kFive{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {10, 10}};

struct Products {
  Rows rows;
  Numbers entries = gram_of(rows);
  GramView view() const { return {entries, rows.size()}; }
};

double squared(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

Numbers mean_row(const Rows& rows, const Places& places) {
  Numbers weights(rows.size());
  for (const std::size_t i : places) weights[i] = 1 / static_cast<double>(places.size());
  return combination(weights, rows);
}

Rows cloud(uint64_t trial, std::size_t n, std::size_t length) {
  RandomStream random(77, Purpose::kData, trial);
  return random_rows(n, length, 0.3, random);
}

// All sets of `size` of n places, in lexicographic order.
std::vector<Places> subsets(std::size_t n, std::size_t size) {
  std::vector<Places> all;
  for (std::size_t bits = 0; bits < (std::size_t{1} << n); ++bits) {
    Places places;
    for (std::size_t i = 0; i < n; ++i) {
      if (bits >> i & 1) places.push_back(i);
    }
    if (places.size() == size) all.push_back(places);
  }
  std::ranges::sort(all);
  return all;
}

// The mean of the set with the least cost, the first of equals.
template <class Cost>
Numbers best_mean(const Rows& rows, std::size_t size, Cost cost) {
  Places best;
  double least = INFINITY;
  for (const Places& places : subsets(rows.size(), size)) {
    const double here = cost(places);
    if (here < least) {
      least = here;
      best = places;
    }
  }
  return mean_row(rows, best);
}

// The largest eigenvalue of the d x d covariance by many power steps on vectors.
double slow_variance(const Rows& rows, const Numbers& p, Numbers* direction = nullptr) {
  const Numbers mu = combination(p, rows);
  Numbers v(mu.size());
  for (std::size_t j = 0; j < v.size(); ++j) v[j] = 1 + 0.1 * static_cast<double>(j * j % 7);
  double value = 0;
  for (int step = 0; step < 20000; ++step) {
    Numbers next(v.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      double shadow = 0;
      for (std::size_t j = 0; j < v.size(); ++j) shadow += (rows[i][j] - mu[j]) * v[j];
      for (std::size_t j = 0; j < v.size(); ++j) next[j] += p[i] * shadow * (rows[i][j] - mu[j]);
    }
    value = norm(next);
    if (value == 0) break;
    v = scaled(next, 1 / value);
  }
  if (direction) *direction = v;
  return value;
}

TEST(Krum, ScoresOfTheHandExampleAreKnown) {
  const Products five{kFive};
  expect_near(krum_scores(five.view(), 1, Variant::kPaper), {2, 2, 2, 2, 343}, 1e-12);
  expect_near(multi_krum(five.view(), 1, 1, Variant::kPaper), {1, 0, 0, 0, 0}, 0);
}

TEST(Krum, TheTwoFormsMayChooseDifferently) {
  const Products line{{{0}, {1}, {2}, {4}, {5}}};
  const auto paper = krum_scores(line.view(), 1, Variant::kPaper);
  const auto reference = krum_scores(line.view(), 1, Variant::kReference);
  expect_near(paper, {5, 2, 5, 5, 10}, 1e-12);
  expect_near(reference, {21, 11, 9, 14, 26}, 1e-12);
  expect_near(multi_krum(line.view(), 1, 1, Variant::kPaper), {0, 1, 0, 0, 0}, 0);
  expect_near(multi_krum(line.view(), 1, 1, Variant::kReference), {0, 0, 1, 0, 0}, 0);
  EXPECT_DOUBLE_EQ(krum_margin(paper), 1.5);
  EXPECT_EQ(krum_margin({3}), 0);
  EXPECT_EQ(krum_margin({3, 3}), 0);
}

TEST(Krum, IsTheLiteralMethodOnVectors) {
  for (uint64_t trial = 0; trial < 100; ++trial) {
    const std::size_t n = 4 + trial % 6;
    const auto f = static_cast<std::size_t>(trial % 2);
    const Rows rows = cloud(trial, n, 1 + trial % 5);
    const bool reference = trial % 3 == 0;
    Numbers scores;
    for (std::size_t i = 0; i < n; ++i) {
      Numbers distances;
      for (std::size_t j = 0; j < n; ++j) {
        if (j != i) distances.push_back(squared(rows[i], rows[j]));
      }
      std::ranges::sort(distances);
      const std::size_t nearest = n - f - (reference ? 1 : 2);
      scores.push_back(std::accumulate(distances.begin(), distances.begin() + long(nearest), 0.0));
    }
    Places order(n);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](std::size_t i) { return scores[i]; });
    order.resize(n - f);
    const auto variant = reference ? Variant::kReference : Variant::kPaper;
    const Products products{rows};
    const auto c = multi_krum(products.view(), int64_t(f), int64_t(n - f), variant);
    expect_near(combination(c, rows), mean_row(rows, order), 1e-12);
  }
}

TEST(Krum, OfEqualScoresTheSmallerPlaceCounts) {
  const Products square{{{0, 0}, {1, 0}, {0, 1}, {1, 1}}};
  expect_near(multi_krum(square.view(), 0, 1, Variant::kPaper), {1, 0, 0, 0}, 0);
  expect_near(multi_krum(square.view(), 0, 2, Variant::kPaper), {0.5, 0.5, 0, 0}, 0);
}

TEST(Bulyan, ChoosesAmongTheRowsThatAreLeft) {
  for (uint64_t trial = 0; trial < 50; ++trial) {
    const std::size_t n = 7 + trial % 5;
    const Rows rows = cloud(trial, n, 3);
    const Products products{rows};
    Places left(n), chosen;
    std::iota(left.begin(), left.end(), 0);
    while (chosen.size() < n - 2) {
      Rows rest;
      for (const std::size_t i : left) rest.push_back(rows[i]);
      const Products part{rest};
      const auto c = multi_krum(part.view(), 1, 1, Variant::kPaper);
      const auto best = std::ranges::max_element(c) - c.begin();
      chosen.push_back(left[std::size_t(best)]);
      left.erase(left.begin() + best);
    }
    std::ranges::sort(chosen);
    EXPECT_EQ(bulyan_selection(products.view(), 1), chosen);
  }
}

TEST(SmallestDiameter, IsTheBestOfAllSets) {
  for (uint64_t trial = 0; trial < 60; ++trial) {
    const std::size_t n = 3 + trial % 6;
    const std::size_t f = trial % ((n + 1) / 2);
    const Rows rows = cloud(trial, n, 1 + trial % 4);
    const Numbers expected = best_mean(rows, n - f, [&](const Places& places) {
      double width = 0;
      for (const std::size_t i : places) {
        for (const std::size_t j : places) width = std::max(width, squared(rows[i], rows[j]));
      }
      return width;
    });
    const Products products{rows};
    const auto c = smallest_diameter(products.view(), int64_t(f));
    expect_near(combination(c, rows), expected, 1e-12);
  }
}

TEST(Monna, IsTheMeanOfTheRowsNearestToThePivot) {
  const Products line{{{0}, {1}, {3}, {7}, {8}}};
  expect_near(nearest_to(line.view(), 2, 3), {0, 0, 1. / 3, 1. / 3, 1. / 3}, 1e-15);
  expect_near(nearest_to(line.view(), 3, 1), {0.5, 0.5, 0, 0, 0}, 0);
}

TEST(GeometricMedian, OfTheHandExampleIsKnown) {
  const Products five{kFive};
  const auto c = geometric_median(five.view(), 3, 0.1);
  expect_near(c, {.30925206, .23845826, .23845826, .20114398, .01268744}, 1e-8);
  expect_near(combination(c, kFive), {.56647664, .56647664}, 1e-8);
  const auto limit = geometric_median(five.view(), 2000, 1e-6);
  expect_near(combination(limit, kFive), {.78867513, .78867513}, 1e-7);
}

TEST(GeometricMedian, IsTheLiteralIterationOnVectors) {
  for (uint64_t trial = 0; trial < 50; ++trial) {
    const Rows rows = cloud(trial, 2 + trial % 9, 1 + trial % 6);
    Numbers z(rows.front().size());
    for (int step = 0; step < 4; ++step) {
      Numbers w;
      for (const Numbers& row : rows) w.push_back(1 / std::max(std::sqrt(squared(row, z)), 0.2));
      z = combination(scaled(w, 1 / std::accumulate(w.begin(), w.end(), 0.0)), rows);
    }
    const Products products{rows};
    expect_near(combination(geometric_median(products.view(), 4, 0.2), rows), z, 1e-12);
  }
}

TEST(CenteredClipping, IsTheLiteralIterationOnVectors) {
  for (uint64_t trial = 0; trial < 60; ++trial) {
    const std::size_t n = 1 + trial % 8;
    Rows rows = cloud(trial, n + 1, 4);
    const bool has_last = trial % 2;
    Numbers v = rows.back();
    if (!has_last) {
      rows.pop_back();
      v.assign(4, 0);
    }
    for (int step = 0; step < 3; ++step) {
      Numbers next = v;
      for (std::size_t i = 0; i < n; ++i) {
        const double t = std::min(1.0, 2 / std::sqrt(squared(rows[i], v)));
        for (std::size_t j = 0; j < 4; ++j) next[j] += t * (rows[i][j] - v[j]) / double(n);
      }
      v = next;
    }
    const Products products{rows};
    const auto c = centered_clipping(products.view(), n, 2, 3);
    ASSERT_EQ(c.size(), rows.size());
    expect_near(combination(c, rows), v, 1e-12);
  }
}

TEST(CenteredClipping, IsTheMeanWithinTheRadius) {
  const Products four{{{1, 0}, {0, 1}, {2, 2}, {5, 5}}};
  expect_near(centered_clipping(four.view(), 3, 100, 1), {1. / 3, 1. / 3, 1. / 3, 0}, 0);
}

TEST(CenteredClipping, ForgetsTheLastStepWithinTheRadius) {
  for (std::size_t n = 1; n < 60; ++n) {
    const Products rows{cloud(n, n + 1, 3)};
    EXPECT_EQ(centered_clipping(rows.view(), n, 1e6, 1).back(), 0) << n;
  }
}

TEST(TrustedMean, TrustsByTheCosineAndTakesTheServersLength) {
  // cos = 1, 0.6, 0, -1 with u_0 = (2, 0); lengths 1, 5, 3, 1.
  const Products rows{{{1, 0}, {3, 4}, {0, 3}, {-1, 0}, {2, 0}}};
  const auto c = trusted_mean(rows.view());
  expect_near(c, {1 / 1.6 * 2, 0.6 / 1.6 * 2 / 5, 0, 0, 0}, 1e-15);
  const Products against{{{-1, 0}, {0, 0}, {2, 0}}};
  expect_near(trusted_mean(against.view()), {0, 0, 0}, 0);
}

TEST(LeastCovariance, EigenvalueIsThatOfTheCovariance) {
  const Products five{kFive};
  EXPECT_NEAR(largest_variance(five.view(), Numbers(5, 0.2)), 29.08, 1e-10);
  for (uint64_t trial = 0; trial < 20; ++trial) {
    const Rows rows = cloud(trial, 3 + trial % 5, 1 + trial % 4);
    const Numbers p(rows.size(), 1 / double(rows.size()));
    const Products products{rows};
    const double slow = slow_variance(rows, p);
    EXPECT_NEAR(largest_variance(products.view(), p), slow, 1e-8 * slow);
  }
}

TEST(LeastCovariance, IsTheBestOfAllSets) {
  for (uint64_t trial = 0; trial < 8; ++trial) {
    const std::size_t n = 4 + trial % 3;
    const std::size_t f = 1 + trial % ((n - 1) / 2);
    const Rows rows = cloud(trial + 100, n, 3);
    const Numbers expected = best_mean(rows, n - f, [&](const Places& places) {
      Rows part;
      for (const std::size_t i : places) part.push_back(rows[i]);
      return slow_variance(part, Numbers(part.size(), 1 / double(part.size())));
    });
    const Products products{rows};
    const auto c = least_covariance(products.view(), int64_t(f));
    expect_near(combination(c, rows), expected, 1e-9);
  }
}

// With rows that are far away, or all far from zero, and with some that are the same.
TEST(LeastCovariance, GivesUpNoSetThatIsTheBest) {
  for (uint64_t trial = 0; trial < 120; ++trial) {
    const std::size_t n = 7 + trial % 4, f = 1 + trial % 3;
    Rows rows = cloud(trial + 300, n, 1 + trial % 7);
    if (trial % 3 == 1) rows[trial % n] = scaled(rows[trial % n], 30);
    if (trial % 5 == 2) rows[n - 1] = rows[0], rows[n - 2] = rows[1];
    if (trial % 2 == 1) {
      for (Numbers& row : rows) row[0] += 1000;
    }
    const Products products{rows};
    const Numbers expected = best_mean(rows, n - f, [&](const Places& places) {
      Rows part;
      for (const std::size_t i : places) part.push_back(rows[i]);
      const Numbers equal(part.size(), 1 / double(part.size()));
      return largest_variance(Products{part}.view(), equal);
    });
    const auto c = least_covariance(products.view(), int64_t(f));
    expect_near(combination(c, rows), expected, 1e-12 * norm(expected));
  }
}

TEST(CovarianceFilter, IsTheLiteralMethodOnVectors) {
  for (uint64_t trial = 0; trial < 12; ++trial) {
    const std::size_t n = 5 + trial % 3;
    const Rows rows = cloud(trial + 200, n, 3);
    const bool reference = trial % 2;
    Numbers c(n, 1), best;
    double least = INFINITY, sum = double(n);
    while (sum > double(n) - 4) {
      const Numbers p = scaled(c, 1 / sum);
      Numbers v, t;
      const double value = slow_variance(rows, p, &v);
      if (value < least) best = combination(p, rows);
      least = std::min(least, value);
      const double centre = dot(combination(p, rows), v);
      double most = 0;
      for (std::size_t i = 0; i < n; ++i) {
        t.push_back(std::pow(dot(rows[i], v) - centre, 2));
        if (reference || c[i] > 1e-12) most = std::max(most, t[i]);
      }
      for (std::size_t i = 0; i < n; ++i) c[i] = std::max(0.0, c[i] * (1 - t[i] / most));
      sum = std::accumulate(c.begin(), c.end(), 0.0);
    }
    const Products products{rows};
    const auto variant = reference ? Variant::kReference : Variant::kPaper;
    expect_near(combination(covariance_filter(products.view(), 2, variant), rows), best, 1e-7);
  }
}

TEST(CovarianceFilter, DropsAFarRow) {
  const Products five{kFive};
  const auto c = covariance_filter(five.view(), 1, Variant::kPaper);
  EXPECT_NEAR(c[4], 0, 1e-12);
  const Products alike{{{1, 2}, {1, 2}, {1, 2}}};
  expect_near(covariance_filter(alike.view(), 1, Variant::kPaper), Numbers(3, 1. / 3), 1e-15);
}

// The choices of the rules that choose rows.
std::vector<Coefficients> choices(const Rows& rows) {
  const Products products{rows};
  const GramView gram = products.view();
  return {multi_krum(gram, 2, 1, Variant::kPaper), multi_krum(gram, 2, 5, Variant::kReference),
          smallest_diameter(gram, 2), nearest_to(gram, 2, 3), least_covariance(gram, 2)};
}

TEST(RobustRules, FollowAPermutationOfTheRows) {
  const Rows rows = cloud(5, 8, 4);
  Rows turned = rows;
  std::rotate(turned.begin(), turned.begin() + 3, turned.end());
  auto before = choices(rows), after = choices(turned);
  before.erase(before.begin() + 3), after.erase(after.begin() + 3);  // one row is trusted there
  for (std::size_t rule = 0; rule < before.size(); ++rule) {
    std::rotate(before[rule].begin(), before[rule].begin() + 3, before[rule].end());
    EXPECT_EQ(before[rule], after[rule]) << rule;
  }
  auto median = geometric_median(Products{rows}.view(), 5, 0.1);
  std::rotate(median.begin(), median.begin() + 3, median.end());
  expect_near(geometric_median(Products{turned}.view(), 5, 0.1), median, 1e-13);
}

TEST(RobustRules, ScaleExactlyWithPowersOfTwo) {
  const Rows rows = cloud(6, 8, 4);
  Rows longer = rows;
  for (Numbers& row : longer) row = scaled(row, 16);
  EXPECT_EQ(choices(rows), choices(longer));
  EXPECT_EQ(geometric_median(Products{rows}.view(), 3, 0.125),
            geometric_median(Products{longer}.view(), 3, 2));
  EXPECT_EQ(covariance_filter(Products{rows}.view(), 2, Variant::kPaper),
            covariance_filter(Products{longer}.view(), 2, Variant::kPaper));
}

TEST(RobustRules, ChooseAlikeWhenAllRowsMove) {
  const Rows rows = cloud(7, 8, 4);
  Rows moved = rows;
  for (Numbers& row : moved) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] += 3 + double(j);
  }
  EXPECT_EQ(choices(rows), choices(moved));
  expect_near(geometric_median(Products{moved}.view(), 3000, 0.1),
              geometric_median(Products{rows}.view(), 3000, 0.1), 1e-8);
}

TEST(RobustRules, WithoutByzantineRowsAreFedAvgToTheLastBit) {
  for (const std::size_t n : {1, 3, 7, 10, 49}) {
    const Rows rows = cloud(n, n, 3);
    const auto fedavg = make_fedavg(ClientWeights::kUniform, Estimator::kNormalized, int64_t(n));
    const Numbers expected = mix_told(*fedavg, {.rows = rows}).coefficients;
    const Products products{rows};
    EXPECT_EQ(multi_krum(products.view(), 0, int64_t(n), Variant::kPaper), expected);
    EXPECT_EQ(smallest_diameter(products.view(), 0), expected);
    EXPECT_EQ(nearest_to(products.view(), 0, 0), expected);
    EXPECT_EQ(least_covariance(products.view(), 0), expected);
    EXPECT_EQ(covariance_filter(products.view(), 0, Variant::kPaper), expected);
  }
}

TEST(Combinations, AreCountedUpToALimit) {
  EXPECT_EQ(combinations(10, 3, 1000000), 120);
  EXPECT_EQ(combinations(50, 25, 1000000), 1000000);
  EXPECT_EQ(combinations(5, 0, 10), 1);
}

}  // namespace
}  // namespace hanse
