// One estimate from those of groups.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "statistics/features.hpp"
#include "statistics/meta.hpp"

namespace hanse {
namespace {

// Two groups, by hand: weights 4 and 1, estimates 1 and 3.
TEST(Meta, IsTheFormulasOfTwoGroups) {
  const MetaAnalysis meta = meta_analysis(std::array{1.0, 3.0}, std::array{0.5, 1.0});
  EXPECT_EQ(meta.groups, 2);
  EXPECT_DOUBLE_EQ(meta.fixed, 7.0 / 5);
  EXPECT_DOUBLE_EQ(meta.fixed_error, 1 / std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(meta.q, 4 * 0.16 + 2.56);  // 3.2
  EXPECT_DOUBLE_EQ(meta.tau_squared, 2.2 / (5 - 17.0 / 5));
  EXPECT_DOUBLE_EQ(meta.i_squared, 2.2 / 3.2);
  EXPECT_DOUBLE_EQ(meta.q_p, chi_squared_p(3.2, 1));
  const double a = 1 / (0.25 + 1.375), b = 1 / (1 + 1.375);
  EXPECT_DOUBLE_EQ(meta.random, (a + 3 * b) / (a + b));
  EXPECT_DOUBLE_EQ(meta.random_error, 1 / std::sqrt(a + b));
}

// Groups that agree better than chance: tau^2 = 0, and both effects are one.
TEST(Meta, OfGroupsThatAgreeHasOneEffect) {
  const MetaAnalysis meta = meta_analysis(std::array{1.0, 1.1, 0.9}, std::array{1.0, 2.0, 1.5});
  EXPECT_EQ(meta.tau_squared, 0);
  EXPECT_EQ(meta.i_squared, 0);
  EXPECT_EQ(meta.random, meta.fixed);
  EXPECT_EQ(meta.random_error, meta.fixed_error);
}

// All groups know the same: the random effect is the mean, and its error that of a sample.
TEST(Meta, OfEqualErrorsIsTheMeanOfASample) {
  const std::array estimates{0.0, 4.0, 11.0}, errors{0.1, 0.1, 0.1};
  const MetaAnalysis meta = meta_analysis(estimates, errors);
  const double variance = (25.0 + 1 + 36) / 2;
  EXPECT_NEAR(meta.random, 5, 1e-14);
  EXPECT_NEAR(meta.random_error, std::sqrt(variance / 3), 1e-13);
  EXPECT_NEAR(meta.tau_squared, variance - 0.01, 1e-12);
}

TEST(Meta, OfOneGroupIsThatGroup) {
  const MetaAnalysis meta = meta_analysis(std::array{2.0}, std::array{0.3});
  EXPECT_EQ(meta.fixed, 2);
  EXPECT_DOUBLE_EQ(meta.random_error, 0.3);
  EXPECT_EQ(meta.tau_squared, 0);
  EXPECT_TRUE(std::isnan(meta.q_p));
}

TEST(Meta, RefusesWhatHasNoWeight) {
  EXPECT_THROW(meta_analysis({}, {}), InvalidArgument);
  EXPECT_THROW(meta_analysis(std::array{1.0}, std::array{0.0}), InvalidArgument);
  EXPECT_THROW(meta_analysis(std::array{1.0}, std::array{std::nan("")}), InvalidArgument);
}

TEST(Meta, TablesLeaveOutGroupsWithoutAFit) {
  const auto tables = meta_tables("cox", {"age"},
                                  {{"a", 10, {1.0}, {0.5}, ""},
                                   {"b", std::nullopt, {}, {}, "no event"},
                                   {"c", 12, {3.0}, {1.0}, ""}},
                                  std::array{1.5}, std::array{0.4}, 0.95);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].name, "cox-groups");
  EXPECT_EQ(tables[0].rows.size(), 3u);
  EXPECT_EQ(std::get<std::string>(tables[0].rows[1].back()), "no event");
  ASSERT_EQ(tables[1].rows.size(), 1u);
  EXPECT_EQ(std::get<int64_t>(tables[1].rows[0][1]), 2);
  EXPECT_DOUBLE_EQ(std::get<double>(tables[1].rows[0][4]), 1.4);
}

}  // namespace
}  // namespace hanse
