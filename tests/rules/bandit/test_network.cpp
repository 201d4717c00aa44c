#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/bandit/network.hpp"
#include "hanse/rules/bandit/problem.hpp"
#include "rules/bandit/reference.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

std::vector<double> normals(int64_t n, uint64_t seed) {
  RandomStream stream(seed, Purpose::kLangevin);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& value : values) value = stream.normal();
  return values;
}

TEST(RewardNetwork, ValueInClosedForm) {
  const RewardNetwork network(2, 2);
  EXPECT_EQ(network.n_params(), 9);
  // W1 = [[1, 2], [3, -1]], c1 = [-5, 0.5], W2 = [10, 100], c2 = 7.
  const std::vector<double> w{1, 2, 3, -1, -5, 0.5, 10, 100, 7};
  const std::vector<double> x{1, 2};  // hidden: s(0) = 1/2, s(1.5)
  EXPECT_NEAR(network.value(x, w), 7 + 5 + 100 / (1 + std::exp(-1.5)), 1e-12);
}

TEST(RewardNetwork, GradientIsThatOfTheValue) {
  for (const auto& [inputs, hidden] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {6, 25}}) {
    const RewardNetwork network(inputs, hidden);
    auto w = normals(network.n_params(), 1);
    const auto x = normals(inputs, 2);
    std::vector<double> gradient(w.size());
    EXPECT_EQ(network.gradient(x, w, gradient), network.value(x, w));
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double kept = w[i];
      w[i] = kept + 1e-5;
      const double above = network.value(x, w);
      w[i] = kept - 1e-5;
      const double below = network.value(x, w);
      w[i] = kept;
      EXPECT_NEAR(gradient[i], (above - below) / 2e-5, 1e-9) << i;
    }
  }
  EXPECT_EQ(RewardNetwork(6, 25).n_params(), 201);
}

// A small network's arms, some pulls, and the three forms of optimism.
struct Forms {
  std::shared_ptr<NetworkArms> arms;
  std::vector<double> linear, mean, ellipsoid;
};

Forms bounds_after(int64_t pulls, double lambda, double sqrt_beta) {
  const RewardNetwork network(2, 3);
  auto arms = std::make_shared<NetworkArms>(
      NetworkArms{network, normals(2 * 5, 3), normals(network.n_params(), 4)});
  std::vector<double> features(static_cast<std::size_t>(5 * network.n_params())), base(5);
  for (std::size_t a = 0; a < 5; ++a) {
    base[a] = network.gradient(std::span(arms->points).subspan(2 * a, 2), arms->w0,
                               std::span(features).subspan(a * 13, 13));
  }
  const ArmFeatures all(features, base, StatisticsForm::kPerArm);
  ConfidenceSet set(all, lambda);
  for (int64_t t = 0; t < pulls; ++t) set.observe(t % 5, 0.1 * static_cast<double>(t % 3));
  Forms forms{.arms = arms};
  const auto fill = [&](const Optimism& optimism) {
    std::vector<double> bounds(5);
    optimism(set, sqrt_beta, bounds);
    return bounds;
  };
  forms.linear = fill(linear_optimism);
  forms.mean = fill(network_mean_optimism(arms));
  forms.ellipsoid = fill(ellipsoid_optimism(arms, 8));
  return forms;
}

// Without pulls the centre is w0, where the network and its linearisation are one.
TEST(Optimism, AllFormsMeetAtW0) {
  const Forms forms = bounds_after(0, 1e4, 0.5);
  for (std::size_t a = 0; a < 5; ++a) {
    EXPECT_NEAR(forms.mean[a], forms.linear[a], 1e-14);
    EXPECT_NEAR(forms.ellipsoid[a], forms.linear[a], 1e-4);  // a small set: f is linear on it
  }
}

// On a set that has not shrunk to a point the ellipsoid's maximum lies above the value at the
// centre, and the radius 0 leaves the centre alone.
TEST(Optimism, TheEllipsoidIsSearchedFromItsCentre) {
  const Forms point = bounds_after(9, 0.5, 0);
  const Forms wide = bounds_after(9, 0.5, 0.4);
  for (std::size_t a = 0; a < 5; ++a) {
    EXPECT_NEAR(point.ellipsoid[a], point.mean[a], 1e-14);
    EXPECT_GT(wide.ellipsoid[a], point.mean[a] + 1e-3);
    EXPECT_GT(std::abs(wide.mean[a] - wide.linear[a]), 1e-9);  // f is not linear
  }
}

double value_of(ArmSource function, const std::vector<double>& point) {
  for (const auto& known : test_functions()) {
    if (known.source == function) return known.value(point);
  }
  ADD_FAILURE() << name_of(function);
  return 0;
}

// The published optima.
TEST(Problem, FunctionsHaveTheirKnownOptima) {
  EXPECT_NEAR(
      value_of(ArmSource::kHartmann6, {0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573}),
      -3.32237, 1e-5);
  EXPECT_NEAR(value_of(ArmSource::kCosine8, std::vector<double>(8, 0.0)), 0.8, 1e-12);
  EXPECT_NEAR(value_of(ArmSource::kCosine8, std::vector<double>(8, 1.0)), -8.8, 1e-12);
  const double pi = std::numbers::pi;
  EXPECT_NEAR(value_of(ArmSource::kBranin, {(pi + 5) / 15, 2.275 / 15}), 0.397887, 1e-6);
  EXPECT_NEAR(value_of(ArmSource::kBranin, {(5 - pi) / 15, 12.275 / 15}), 0.397887, 1e-6);
  EXPECT_NEAR(value_of(ArmSource::kAckley, {0.5, 0.5, 0.5}), 0, 1e-12);
  EXPECT_NEAR(value_of(ArmSource::kRastrigin, {0.5, 0.5}), 0, 1e-12);
  EXPECT_NEAR(value_of(ArmSource::kRastrigin, {0.5, 0.5 + 0.5 / 5.12 / 2}), 20.25,
              1e-9);  // x = (0, 0.5)
}

TEST(Problem, ArmsAreThePointsAndTheFunctionThere) {
  for (const auto& function : test_functions()) {
    const Arms arms = draw_arms(function.source, 40, 3, true, 7);
    const Arms plain = draw_arms(function.source, 40, 3, false, 7);
    EXPECT_EQ(arms.inputs, function.inputs > 0 ? function.inputs : 3);
    ASSERT_EQ(arms.size(), 40);
    EXPECT_EQ(arms.points, plain.points);
    const auto n = static_cast<std::size_t>(arms.inputs);
    for (std::size_t a = 0; a < 40; ++a) {
      const auto point = std::span(arms.points).subspan(a * n, n);
      for (const double u : point) EXPECT_TRUE(u >= function.low && u < 1);
      EXPECT_EQ(arms.values[a], -function.value(point));
      EXPECT_EQ(plain.values[a], function.value(point));
    }
    EXPECT_NE(draw_arms(function.source, 40, 3, true, 8).points, arms.points);
  }
  expect_error<InvalidArgument>([] { draw_arms(ArmSource::kBranin, 1, 2, true, 1); }, {"1 arms"});
}

}  // namespace
}  // namespace hanse
