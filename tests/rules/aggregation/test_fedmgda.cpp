#include <gtest/gtest.h>

#include "hanse/rules/aggregation/multi_objective.hpp"
#include "rules/aggregation/quadratic.hpp"
#include "rules/aggregation/rows.hpp"

namespace hanse {
namespace {

Rows unit_rows(Rows rows) {
  for (Numbers& row : rows) row = scaled(row, 1 / norm(row));
  return rows;
}

// lambda on the unit vectors themselves, by trying every face of the box.
Numbers literal_lambda(const Told& told, const Numbers& centre, double epsilon) {
  Numbers lower, upper;
  for (const double c : centre) {
    lower.push_back(std::max(0.0, c - epsilon));
    upper.push_back(std::min(1.0, c + epsilon));
  }
  return enumerate_minimum({gram_of(unit_rows(told.rows)), Numbers(told.k())}, lower, upper);
}

Numbers shares(Numbers weights) {
  return scaled(weights, 1 / std::accumulate(weights.begin(), weights.end(), 0.0));
}

TEST(FedMgda, IsTheLiteralMethodOnVectors) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    RandomStream random(31, Purpose::kData, trial);
    const std::size_t k = 1 + trial % 6;
    Told told{.rows = random_rows(k, k + trial % 4, 0.4, random)};
    for (std::size_t i = 0; i < k; ++i) told.sizes.push_back(1 + 9 * random.uniform());
    for (std::size_t i = 0; i < k; ++i) told.draw_weights.push_back(0.5 + random.uniform());
    const bool samples = trial % 2;
    Numbers centre = told.draw_weights;
    for (std::size_t i = 0; samples && i < k; ++i) centre[i] *= told.sizes[i];
    const double epsilon = 0.05 * static_cast<double>(1 + trial % 7);
    const Numbers lambda = literal_lambda(told, shares(centre), epsilon);
    const auto rule =
        make_fedmgda(epsilon, samples ? ClientWeights::kSamples : ClientWeights::kUniform);
    const Mix mix = mix_told(*rule, told);
    expect_near(mix.response, lambda, 1e-9);
    const Numbers step = combination(lambda, unit_rows(told.rows));
    expect_near(step_of(told, mix.coefficients), step, 1e-9);
    EXPECT_NEAR(mix.direction.squared_norm, dot(step, step), 1e-9);
    EXPECT_EQ(mix.direction.ridge, 0);
    EXPECT_EQ(mix.direction.dropped, 0);
  }
}

TEST(FedMgda, WithoutEpsilonIsFedAvgOfUnitUpdates) {
  RandomStream random(32, Purpose::kData);
  const Told told{.rows = random_rows(4, 6, 0, random), .sizes = {1, 2, 3, 4}};
  const Mix mix = mix_told(*make_fedmgda(0, ClientWeights::kSamples), told);
  expect_near(mix.response, {0.1, 0.2, 0.3, 0.4}, 1e-15);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(mix.coefficients[i] * norm(told.rows[i]), 0.1 * static_cast<double>(i + 1), 1e-15);
  }
  expect_near(mix_told(*make_fedmgda(0, ClientWeights::kUniform), told).response, Numbers(4, 0.25),
              1e-15);
}

// With epsilon >= 1 nobody's loss rises, to first order.
TEST(FedMgda, WithoutABoxNobodyIsHarmed) {
  for (uint64_t trial = 0; trial < 100; ++trial) {
    RandomStream random(33, Purpose::kData, trial);
    const Told told{.rows = random_rows(2 + trial % 20, 30, 0.2, random)};
    for (const double epsilon : {1.0, 7.0}) {
      const Mix mix = mix_told(*make_fedmgda(epsilon, ClientWeights::kUniform), told);
      const auto view = view_step(told.gram(), mix.coefficients, static_cast<int64_t>(told.k()));
      EXPECT_EQ(view.conflicts, 0) << trial;
      EXPECT_NEAR(view.squared_norm, mix.direction.squared_norm, 1e-12);
    }
  }
}

TEST(FedMgda, HowLongAnUpdateIsDoesNotMatter) {
  RandomStream random(34, Purpose::kData);
  Told told{.rows = random_rows(5, 9, 0.3, random)};
  const auto rule = make_fedmgda(0.1, ClientWeights::kSamples);
  const Mix before = mix_told(*rule, told);
  told.rows[3] = scaled(told.rows[3], 1e6);
  const Mix after = mix_told(*rule, told);
  expect_near(after.response, before.response, 1e-12);
  EXPECT_NEAR(after.coefficients[3] * 1e6, before.coefficients[3], 1e-12);
}

TEST(FedMgda, ZeroUpdatesAreDropped) {
  const auto rule = make_fedmgda(0, ClientWeights::kSamples);
  const Told told{.rows = {{0, 0}, {3, 4}, {0, 2}}, .sizes = {5, 1, 3}};
  const Mix mix = mix_told(*rule, told);
  EXPECT_EQ(mix.direction.dropped, 1);
  expect_near(mix.response, {0, 0.25, 0.75}, 1e-15);
  expect_near(mix.coefficients, {0, 0.05, 0.375}, 1e-15);
  const Mix nothing = mix_told(*rule, {.rows = {{0}, {0}}});
  EXPECT_EQ(nothing.direction.dropped, 2);
  EXPECT_EQ(nothing.coefficients, Numbers(2));
}

TEST(FedMgda, OneParticipantMakesAStepOfLengthOne) {
  for (const double epsilon : {0.0, 0.1, 1.0}) {
    const Mix mix = mix_told(*make_fedmgda(epsilon, ClientWeights::kSamples), {.rows = {{3, 4}}});
    expect_near(mix.coefficients, {0.2}, 1e-15);
    EXPECT_NEAR(mix.direction.squared_norm, 1, 1e-15);
  }
}

// Parallel updates, and more of them than parameters: a ridge is added and told.
TEST(FedMgda, DegenerateUpdatesGetARidge) {
  const Told parallel{.rows = {{1, 2}, {2, 4}, {3, 6}}};
  const Mix mix = mix_told(*make_fedmgda(1, ClientWeights::kUniform), parallel);
  EXPECT_GT(mix.direction.ridge, 0);
  EXPECT_LE(mix.direction.ridge, 1e-9);
  expect_near(mix.response, Numbers(3, 1.0 / 3), 1e-5);
  EXPECT_NEAR(mix.direction.squared_norm, 1, 1e-12);
  for (uint64_t trial = 0; trial < 30; ++trial) {
    RandomStream random(35, Purpose::kData, trial);
    const Told many{.rows = random_rows(20, 3, 2, random)};
    const Mix mixed = mix_told(*make_fedmgda(0.03, ClientWeights::kUniform), many);
    EXPECT_GT(mixed.direction.ridge, 0);
    // No pair can trade weight within the box and shorten the step.
    const Rows units = unit_rows(many.rows);
    const Numbers step = combination(mixed.response, units);
    double rises = 1, falls = -1;
    for (std::size_t i = 0; i < 20; ++i) {
      const double product = dot(units[i], step);
      if (mixed.response[i] < 0.05 + 0.03 - 1e-12) rises = std::min(rises, product);
      if (mixed.response[i] > 0.05 - 0.03 + 1e-12) falls = std::max(falls, product);
    }
    EXPECT_LT(falls - rises, 1e-8) << trial;
  }
}

TEST(FedMgda, FollowsTheOrderOfTheParticipants) {
  RandomStream random(36, Purpose::kData);
  Told told{.rows = random_rows(6, 8, 0.2, random), .sizes = {1, 2, 3, 4, 5, 6}};
  const auto rule = make_fedmgda(0.1, ClientWeights::kSamples);
  const Mix mix = mix_told(*rule, told);
  std::reverse(told.rows.begin(), told.rows.end());
  std::reverse(told.sizes.begin(), told.sizes.end());
  const Mix reversed = mix_told(*rule, told);
  expect_near(Numbers(reversed.coefficients.rbegin(), reversed.coefficients.rend()),
              mix.coefficients, 1e-12);
}

}  // namespace
}  // namespace hanse
