#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/attacks.hpp"
#include "rules/aggregation/robust_weights.hpp"

namespace hanse {
namespace {

// Honest rows, their mean and their deviation by column.
Rows with_mean_and_deviation(Rows rows) {
  const std::size_t honest = rows.size();
  Numbers mean = combination(Numbers(honest, 1 / double(honest)), rows);
  Numbers deviation(mean.size());
  for (std::size_t j = 0; j < mean.size(); ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < honest; ++i) sum += std::pow(rows[i][j] - mean[j], 2);
    deviation[j] = std::sqrt(sum / double(honest - 1));
  }
  rows.push_back(mean);
  rows.push_back(deviation);
  return rows;
}

struct Scene {
  explicit Scene(Rows honest_rows)
      : honest(honest_rows.size()),
        rows(with_mean_and_deviation(std::move(honest_rows))),
        entries(gram_of(rows)) {}
  std::size_t honest;
  Rows rows;
  Numbers entries;
  GramView gram() const { return {entries, rows.size()}; }
  Numbers row(const AttackRow& attack) const { return combination(attack.coefficients, rows); }
};

Scene scene(uint64_t trial, std::size_t honest, std::size_t length) {
  RandomStream random(80, Purpose::kData, trial);
  return Scene(random_rows(honest, length, 0.3, random));
}

double distance(const Numbers& a, const Numbers& b) {
  Numbers difference = a;
  for (std::size_t j = 0; j < a.size(); ++j) difference[j] -= b[j];
  return norm(difference);
}

double farthest(const Scene& s, const Numbers& a) {
  double most = 0;
  for (std::size_t i = 0; i < s.honest; ++i) most = std::max(most, distance(a, s.rows[i]));
  return most;
}

double sum_of_squares(const Scene& s, const Numbers& a) {
  double sum = 0;
  for (std::size_t i = 0; i < s.honest; ++i) sum += std::pow(distance(a, s.rows[i]), 2);
  return sum;
}

Numbers perturbed(const Scene& s, AttackDirection direction, double gamma) {
  const Numbers& h = s.rows[s.honest];
  Numbers a = h;
  for (std::size_t j = 0; j < a.size(); ++j) {
    a[j] -= gamma * (direction == AttackDirection::kUnit ? h[j] / norm(h) : s.rows.back()[j]);
  }
  return a;
}

TEST(Attacks, OfTheHandExampleAreKnown) {
  const Scene s({{0, 0}, {2, 0}, {0, 2}});
  const AttackRow max = min_max_attack(s.gram(), AttackDirection::kUnit);
  EXPECT_NEAR(max.strength, 1.978085221992147, 1e-12);
  EXPECT_NEAR(farthest(s, s.row(max)), 2 * std::sqrt(2), 1e-12);
  const AttackRow sum = min_sum_attack(s.gram(), AttackDirection::kUnit);
  EXPECT_NEAR(sum.strength, 1.490711984999860, 1e-12);
}

TEST(Attacks, ReachTheLargestStrengthThatStaysAmongTheHonest) {
  for (uint64_t trial = 0; trial < 100; ++trial) {
    const Scene s = scene(trial, 2 + trial % 7, 1 + trial % 5);
    double radius = 0, sum = 0;
    for (std::size_t i = 0; i < s.honest; ++i) {
      radius = std::max(radius, farthest(s, s.rows[i]));
      sum = std::max(sum, sum_of_squares(s, s.rows[i]));
    }
    for (const auto direction : {AttackDirection::kUnit, AttackDirection::kDeviation}) {
      const AttackRow max = min_max_attack(s.gram(), direction);
      expect_near(s.row(max), perturbed(s, direction, max.strength), 1e-11);
      EXPECT_NEAR(farthest(s, s.row(max)), radius, 1e-11 * radius);
      EXPECT_GT(farthest(s, perturbed(s, direction, max.strength * (1 + 1e-7) + 1e-9)), radius);
      const AttackRow least = min_sum_attack(s.gram(), direction);
      EXPECT_NEAR(sum_of_squares(s, s.row(least)), sum, 1e-11 * sum);
      EXPECT_GT(sum_of_squares(s, perturbed(s, direction, least.strength * (1 + 1e-7) + 1e-9)),
                sum);
    }
  }
}

TEST(Attacks, WithoutADirectionSendTheMean) {
  const Scene s({{1, -2}, {1, -2}, {1, -2}});
  EXPECT_EQ(min_max_attack(s.gram(), AttackDirection::kDeviation).strength, 0);
  expect_near(s.row(min_sum_attack(s.gram(), AttackDirection::kDeviation)), {1, -2}, 1e-15);
  const Scene zero({{1, 0}, {-1, 0}});
  expect_near(zero.row(min_max_attack(zero.gram(), AttackDirection::kUnit)), {0, 0}, 0);
}

TEST(Attacks, AreCombinationsOfTheRowsMeanAndDeviation) {
  const Scene s = scene(1, 5, 4);
  const Numbers& h = s.rows[5];
  expect_near(s.row(inner_product_attack(5, 1)), scaled(h, -1), 0);
  expect_near(s.row(inner_product_attack(5, 2)), scaled(h, -2), 0);
  expect_near(s.row(mimic_attack(5)), s.rows[0], 0);
  Numbers little = h;
  for (std::size_t j = 0; j < 4; ++j) little[j] += 1.5 * s.rows[6][j];
  expect_near(s.row(little_attack(5, 1.5)), little, 1e-15);
}

TEST(Attacks, LittleHasTheStrengthOfItsTable) {
  // n = 50, f = 24: m = 2, so (26 - 2) / 26; n = 20, f = 5: m = 6, 9 / 15.
  EXPECT_NEAR(std::erfc(-little_strength(50, 24) / std::sqrt(2.0)) / 2, 24. / 26, 1e-15);
  EXPECT_NEAR(little_strength(20, 5), 0.2533471031357997, 1e-12);  // Phi^-1(0.6)
  EXPECT_LT(little_strength(10, 1), 0);                            // m = 5 of 9
  EXPECT_THROW(little_strength(10, 6), InvalidArgument);
  EXPECT_THROW(little_strength(1, 0), InvalidArgument);
}

TEST(Attacks, ProductsWithTheAttackersAreThoseOfTheVectors) {
  const Scene s = scene(2, 6, 3);
  const AttackRow attack = little_attack(6, 2.5);
  Rows all(s.rows.begin(), s.rows.begin() + 6);
  for (int i = 0; i < 3; ++i) all.push_back(s.row(attack));
  expect_near(attacked_products(s.gram(), attack.coefficients, 3), gram_of(all), 1e-12);
}

TEST(LineSearch, DoublesWhileItRisesAndThenNarrows) {
  std::vector<double> points;
  const double best = line_search(
      [&](double x) {
        points.push_back(x);
        return -std::abs(x - 75);
      },
      7);
  // 0; 10 and 30 and 70 are better, 150 is not; the next step is 0.8 x 80, from 70.
  expect_near(points, {0, 10, 30, 70, 150, 134, 121.2}, 1e-12);
  EXPECT_EQ(best, 70);
  // A better point later on does not make the steps longer again.
  points.clear();
  line_search(
      [&](double x) {
        points.push_back(x);
        return -std::abs(x - 75);
      },
      16);
  EXPECT_NEAR(points[14], 70 + 80 * std::pow(0.8, 10), 1e-9);
  EXPECT_NEAR(points[15], points[14] + 80 * std::pow(0.8, 11), 1e-9);
  EXPECT_EQ(line_search([](double x) { return -x; }), 0);
  EXPECT_EQ(line_search([](double x) { return x; }, 1), 0);
  EXPECT_EQ(line_search([](double x) { return x; }, 4), 70);
}

TEST(OptimalAttacks, MoveTheAggregateFartherThanTheOtherStrengths) {
  const Scene s = scene(4, 8, 5);
  const std::size_t f = 2;
  const Displacement by_median = [&](std::span<const double> row) {
    const Numbers entries = attacked_products(s.gram(), row, f);
    const GramView products{entries, 8 + f};
    auto c = geometric_median(products, 3, 0.1);
    for (std::size_t i = 0; i < 8; ++i) c[i] -= 1. / 8;
    return products.product(c, c);
  };
  // The same on vectors.
  const auto moved = [&](const AttackRow& attack) {
    Rows all(s.rows.begin(), s.rows.begin() + 8);
    all.insert(all.end(), f, s.row(attack));
    const Numbers entries = gram_of(all);
    return distance(combination(geometric_median({entries, 10}, 3, 0.1), all), s.rows[8]);
  };
  for (const auto kind : {OptimalAttack::kLittle, OptimalAttack::kInnerProduct}) {
    const AttackRow best = optimal_attack(8, kind, by_median);
    for (const double strength : {0.0, 10.0, 30.0}) {
      const AttackRow other = kind == OptimalAttack::kLittle ? little_attack(8, strength)
                                                             : inner_product_attack(8, strength);
      EXPECT_GE(moved(best), moved(other) * (1 - 1e-9));
    }
    EXPECT_GT(best.strength, 0);
  }
}

}  // namespace
}  // namespace hanse
