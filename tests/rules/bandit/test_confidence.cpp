#include <cmath>
#include <limits>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/bandit/confidence.hpp"
#include "rules/bandit/reference.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

ArmFeatures features_of(const TestBandit& bandit, StatisticsForm form) {
  return ArmFeatures(bandit.features, bandit.base, form);
}

// Sigma and v by the definition, next to a set that saw the same pulls.
struct Dense {
  Matrix sigma;
  Vector v;
  Matrix phi;

  Dense(const TestBandit& bandit, double lambda)
      : sigma(lambda * Matrix::Identity(bandit.dimension, bandit.dimension)),
        v(Vector::Zero(bandit.dimension)),
        phi(Eigen::Map<const Matrix>(bandit.features.data(), bandit.dimension, bandit.arms)) {}

  void add(int64_t arm, double residual) {
    sigma += phi.col(arm) * phi.col(arm).transpose();
    v += residual * phi.col(arm);
  }

  void expect_equals(const ConfidenceSet& set, double tolerance) const {
    const Matrix inverse = sigma.fullPivLu().inverse();
    for (Eigen::Index a = 0; a < phi.cols(); ++a) {
      const auto i = static_cast<std::size_t>(a);
      EXPECT_NEAR(set.squared_widths()[i], phi.col(a).dot(inverse * phi.col(a)), tolerance) << a;
      EXPECT_NEAR(set.means()[i], phi.col(a).dot(inverse * v), tolerance) << a;
    }
    const double lambda = set.lambda();
    EXPECT_NEAR(set.log_growth(),
                sigma.ldlt().vectorD().array().log().sum() -
                    static_cast<double>(sigma.rows()) * std::log(lambda),
                tolerance);
    const Vector shift = inverse * v;
    const auto found = set.shift();
    for (Eigen::Index i = 0; i < shift.size(); ++i) {
      EXPECT_NEAR(found[static_cast<std::size_t>(i)], shift[i], tolerance);
    }
  }
};

class BothForms : public testing::TestWithParam<StatisticsForm> {};
INSTANTIATE_TEST_SUITE_P(Confidence, BothForms,
                         testing::Values(StatisticsForm::kPacked, StatisticsForm::kPerArm));

// 150 pulls pass two refactorings; fewer arms than features, and more.
TEST_P(BothForms, FollowsTheDefinitionPullByPull) {
  for (const int64_t arms : {2, 5, 13}) {
    const TestBandit bandit = random_bandit(1, 150, arms, 7, 3);
    const ArmFeatures features = features_of(bandit, GetParam());
    ConfidenceSet set(features, 0.3);
    Dense pulls(bandit, 0.3);
    pulls.expect_equals(set, 1e-10);
    RandomStream stream(5, Purpose::kArms);
    for (int64_t t = 0; t < 150; ++t) {
      const int64_t arm = stream.below(arms);
      const double residual = stream.normal();
      set.observe(arm, residual);
      pulls.add(arm, residual);
      if (t % 21 == 0 || t > 145) pulls.expect_equals(set, 1e-10);
    }
  }
}

// Widths that fall from 1e6 to 1 lose the digits of the difference unless they are computed anew.
TEST_P(BothForms, FallingWidthsKeepTheirDigits) {
  const TestBandit bandit = random_bandit(1, 1, 13, 7, 3);
  const ArmFeatures features = features_of(bandit, GetParam());
  ConfidenceSet set(features, 1e-6);
  std::vector<double> row(static_cast<std::size_t>(features.row_width()));
  for (int64_t t = 0; t < 30; ++t) {
    set.observe(t % 11, 1);
    add_pull(features, t % 11, 1, row);
    ConfidenceSet anew(features, 1e-6);
    anew.rebuild(row);
    for (std::size_t a = 0; a < 13; ++a) {
      const double width = anew.squared_widths()[a];
      if (t > 8) {
        EXPECT_NEAR(set.squared_widths()[a], width, 1e-12 * width) << t;
      }
    }
  }
}

TEST_P(BothForms, RebuildsFromRowsAddedInAnyParts) {
  const TestBandit bandit = random_bandit(1, 1, 4, 6, 8);
  const ArmFeatures features = features_of(bandit, GetParam());
  Dense pulls(bandit, 2);
  std::vector<double> first(static_cast<std::size_t>(features.row_width()));
  std::vector<double> second(first.size());
  const std::vector<std::pair<int64_t, double>> seen{{3, 0.5}, {0, -1}, {3, 2}, {1, 0.25}, {0, 4}};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    add_pull(features, seen[i].first, seen[i].second, i < 2 ? first : second);
    pulls.add(seen[i].first, seen[i].second);
  }
  for (std::size_t i = 0; i < first.size(); ++i) first[i] += second[i];
  ConfidenceSet set(features, 2);
  set.rebuild(first);
  pulls.expect_equals(set, 1e-12);
  set.rebuild(std::vector<double>(first.size()));
  Dense(bandit, 2).expect_equals(set, 1e-12);
}

TEST_P(BothForms, SolvesForWeightsOutsideTheSpanOfTheArms) {
  const TestBandit bandit = random_bandit(1, 1, 3, 5, 4);
  const ArmFeatures features = features_of(bandit, GetParam());
  ConfidenceSet set(features, 0.5);
  Dense pulls(bandit, 0.5);
  for (const int64_t arm : {0, 2, 2}) {
    set.observe(arm, 1);
    pulls.add(arm, 1);
  }
  const std::vector<double> g{1, -2, 0.5, 3, -0.25};
  const Vector expected = pulls.sigma.fullPivLu().solve(Eigen::Map<const Vector>(g.data(), 5));
  const auto found = set.solve(g);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(found[i], expected[static_cast<int>(i)], 1e-12);
}

// The widths that decide, over the range of ridges a job may name.
TEST(Confidence, BothFormsAgreeTo1e10) {
  for (const double lambda : {1e-3, 0.045, 10.0}) {
    const TestBandit bandit = random_bandit(1, 1, 20, 61, 12);
    const ArmFeatures packed = features_of(bandit, StatisticsForm::kPacked);
    const ArmFeatures per_arm = features_of(bandit, StatisticsForm::kPerArm);
    EXPECT_EQ(packed.row_width(), 61 * 62 / 2 + 61);
    EXPECT_EQ(per_arm.row_width(), 40);
    ConfidenceSet a(packed, lambda), b(per_arm, lambda);
    RandomStream stream(5, Purpose::kArms);
    for (int64_t t = 0; t < 300; ++t) {
      const int64_t arm = stream.below(stream.below(20) + 1);
      const double residual = stream.normal();
      a.observe(arm, residual);
      b.observe(arm, residual);
    }
    for (std::size_t x = 0; x < 20; ++x) {
      EXPECT_NEAR(std::sqrt(a.squared_widths()[x]), std::sqrt(b.squared_widths()[x]), 1e-10);
      EXPECT_NEAR(a.means()[x], b.means()[x], 1e-10);
    }
    EXPECT_NEAR(a.log_growth(), b.log_growth(), 1e-10 * a.log_growth());
  }
}

TEST(Confidence, TheSmallerFormIsChosen) {
  EXPECT_EQ(statistics_form(AskedStatistics::kAuto, 50, 201), StatisticsForm::kPerArm);
  EXPECT_EQ(statistics_form(AskedStatistics::kAuto, 50, 6), StatisticsForm::kPacked);
  EXPECT_EQ(statistics_form(AskedStatistics::kPacked, 50, 201), StatisticsForm::kPacked);
  EXPECT_EQ(statistics_form(AskedStatistics::kPerArm, 50, 6), StatisticsForm::kPerArm);
}

TEST(Confidence, RefusesWhatIsNoBandit) {
  const auto make = [](std::vector<double> features, std::vector<double> base) {
    return [=] { ArmFeatures(features, base, StatisticsForm::kPacked); };
  };
  expect_error<InvalidArgument>(make({1, 2}, {0}), {"1 arms"});
  expect_error<InvalidArgument>(make({}, {0, 1}), {"without features"});
  expect_error<InvalidArgument>(make({1, NAN, 3, 4}, {0, 1}), {"a feature is not finite (arm 0)"});
  expect_error<InvalidArgument>(make({1, 2, 3, INFINITY}, {0, 1}), {"(arm 1)"});
  expect_error<InvalidArgument>(make({1, 2, 3, 4}, {0, NAN}), {"the base value is not finite"});
}

}  // namespace
}  // namespace hanse
