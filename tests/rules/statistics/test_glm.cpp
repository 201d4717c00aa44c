// Regressions, against closed forms and Newton's steps in plain loops.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "rules/statistics/table_of.hpp"
#include "statistics/glm_family.hpp"

namespace hanse::test {
namespace {

std::vector<double> coefficients(const StatisticsResult& result) {
  return numbers_of(table_of(result, "glm"), "coefficient");
}
std::vector<double> errors(const StatisticsResult& result) {
  return numbers_of(table_of(result, "glm"), "standard_error");
}

// x1, x2, w (whole weights), label by a logistic law of x1 and x2.
TableOf logistic_table(std::size_t n) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < n; ++i) {
    const double a = 100 + 3 * normal(random), b = normal(random);
    const double eta = 0.4 * (a - 100) - b;
    rows.push_back({a, b, static_cast<double>(1 + i % 3),
                    uniform(random) < 1 / (1 + std::exp(-eta)) ? 1.0 : 0.0});
  }
  TableOf table{{"x1", "x2", "w", "label"}, std::move(rows)};
  table.setup.options.columns = "x*";
  return table;
}

TEST(Glm, FitsALineExactly) {
  TableOf table{{"x", "y"}, {{1, 5}, {2, 7}, {4, 11}, {10, 23}}};
  table.setup.options.family = GlmFamily::kGaussian;
  const StatisticsResult result = table.run(make_glm);
  EXPECT_NEAR(coefficients(result)[0], 3, 1e-12);
  EXPECT_NEAR(coefficients(result)[1], 2, 1e-13);
  EXPECT_NEAR(number(fact_of(result, "deviance")), 0, 1e-25);
  EXPECT_NEAR(errors(result)[1], 0, 1e-14);
}

// Of a two-by-two table the coefficient is the log odds ratio, and its variance the sum of the
// cells' reciprocals.
TEST(Glm, IsTheLogOddsRatioOfATableOfTwo) {
  std::vector<std::vector<double>> rows;
  for (const auto& [x, y, count] : {std::tuple{0, 0, 12}, {0, 1, 5}, {1, 0, 4}, {1, 1, 9}}) {
    for (int i = 0; i < count; ++i)
      rows.push_back({static_cast<double>(x), static_cast<double>(y)});
  }
  TableOf table{{"x", "label"}, std::move(rows)};
  const StatisticsResult result = table.run(make_glm);
  EXPECT_NEAR(coefficients(result)[1], std::log(12.0 * 9 / (5 * 4)), 1e-12);
  EXPECT_NEAR(errors(result)[1], std::sqrt(1.0 / 12 + 1.0 / 5 + 1.0 / 4 + 1.0 / 9), 1e-12);
  EXPECT_NEAR(numbers_of(table_of(result, "glm"), "odds_ratio")[1], 5.4, 1e-11);
  const double ll = 12 * std::log(12.0 / 17) + 5 * std::log(5.0 / 17) + 4 * std::log(4.0 / 13) +
                    9 * std::log(9.0 / 13);
  EXPECT_NEAR(number(fact_of(result, "log_likelihood")), ll, 1e-11);
  EXPECT_NEAR(number(fact_of(result, "null_deviance")),
              -2 * (16 * std::log(16.0 / 30) + 14 * std::log(14.0 / 30)), 1e-11);
  EXPECT_NEAR(number(fact_of(result, "aic")), 4 - 2 * ll, 1e-11);
}

// A Poisson model of two groups: means of groups are fitted, and exposures divide them.
TEST(Glm, FitsRatesOfGroups) {
  const double one = std::log(2.0F);
  TableOf table{{"g", "o", "y"}, {{0, 0, 3}, {0, one, 8}, {1, 0, 1}, {1, one, 0}, {1, 0, 4}}};
  table.setup.options.family = GlmFamily::kPoisson;
  table.setup.options.offset = "o";
  table.setup.options.columns = "g";
  const StatisticsResult result = table.run(make_glm);
  EXPECT_NEAR(std::exp(coefficients(result)[0]), 11.0 / 3, 1e-7);  // o is a float32
  EXPECT_NEAR(std::exp(coefficients(result)[1]), 5.0 / 4 / (11.0 / 3), 1e-7);
  double ll = 0;
  const double mu[] = {11.0 / 3, 22.0 / 3, 5.0 / 4, 10.0 / 4, 5.0 / 4}, y[] = {3, 8, 1, 0, 4};
  for (int i = 0; i < 5; ++i) ll += y[i] * std::log(mu[i]) - mu[i] - std::lgamma(y[i] + 1);
  EXPECT_NEAR(number(fact_of(result, "log_likelihood")), ll, 1e-6);
}

TEST(Glm, CountsAWeightAsSoManySamples) {
  TableOf weighted = logistic_table(60);
  weighted.setup.options.weights = "w";
  std::vector<std::vector<double>> rows;
  for (const auto& row : weighted.rows()) {
    for (int k = 0; k < static_cast<int>(row[2]); ++k) rows.push_back(row);
  }
  TableOf repeated{{"x1", "x2", "w", "label"}, std::move(rows)};
  repeated.setup.options.columns = "x*";
  const StatisticsResult one = weighted.run(make_glm), other = repeated.run(make_glm);
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(coefficients(one)[j], coefficients(other)[j],
                1e-10 * std::abs(coefficients(other)[j]));
    EXPECT_NEAR(errors(one)[j], errors(other)[j], 1e-10 * errors(other)[j]);
  }
  EXPECT_EQ(number(fact_of(one, "n")), number(fact_of(other, "n")));
}

// The score is zero there, in plain sums.
TEST(Glm, SolvesTheScoreEquations) {
  const TableOf table = logistic_table(400);
  const auto b = coefficients(table.run(make_glm, {.clients = 5, .ranks = 3, .block = 50}));
  long double score[3] = {};
  for (const auto& row : table.rows()) {
    const double x1 = static_cast<float>(row[0]), x2 = static_cast<float>(row[1]);
    const double off = row[3] - 1 / (1 + std::exp(-(b[0] + b[1] * x1 + b[2] * x2)));
    score[0] += off;
    score[1] += off * x1;
    score[2] += off * x2;
  }
  for (const long double sum : score) EXPECT_NEAR(static_cast<double>(sum), 0, 1e-8);
}

TEST(Glm, RobustErrorsOfOneGroupAreThoseOfItsResiduals) {
  TableOf table{{"x", "y"}, {{0, 1}, {0, 2}, {0, 6}, {1, 4}, {1, 10}}};
  table.setup.options.family = GlmFamily::kGaussian;
  table.setup.options.robust = true;
  const StatisticsResult result = table.run(make_glm);
  // Residuals -2, -1, 3 and -3, 3: HC0 of the first mean is sqrt(14) / 3.
  EXPECT_NEAR(errors(result)[0], std::sqrt(14.0) / 3, 1e-12);
  EXPECT_NEAR(errors(result)[1], std::sqrt(14.0 / 9 + 18.0 / 4), 1e-12);
}

TEST(Glm, ComparesCategoriesWithTheirFirst) {
  TableOf table{{"c", "y"}, {{0, 1}, {0, 3}, {1, 5}, {1, 7}, {2, 0}, {2, 4}}};
  table.levels("c") = {"low", "middle", "high"};
  table.setup.options.family = GlmFamily::kGaussian;
  const StatisticsResult result = table.run(make_glm);
  EXPECT_EQ(text(table_of(result, "glm").rows[1][0]), "c=middle");
  EXPECT_NEAR(coefficients(result)[0], 2, 1e-12);
  EXPECT_NEAR(coefficients(result)[1], 4, 1e-12);
  EXPECT_NEAR(coefficients(result)[2], 0, 1e-12);
}

void expect_refused(TableOf table, const std::string& words) {
  try {
    table.run(make_glm);
    FAIL() << "nothing was refused: " << words;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Glm, NamesWhatHasNoAnswer) {
  expect_refused({{"x", "label"}, {{1, 0}, {2, 0}, {3, 1}, {4, 1}}}, "'x' separates");
  expect_refused({{"x", "y", "label"}, {{1, 2, 0}, {2, 4, 1}, {3, 6, 0}, {5, 10, 1}}},
                 "'y' is constant, or a sum");
  expect_refused({{"x", "k", "label"}, {{1, 3, 0}, {2, 3, 1}, {3, 3, 0}}}, "'k' is constant");
  expect_refused({{"x", "label"}, {{1, 0}, {2, 1}, {3, 2}}}, "has three values");
  TableOf counts{{"x", "label"}, {{1, -1}, {2, 1}, {3, 2}}};
  counts.setup.options.family = GlmFamily::kPoisson;
  expect_refused(counts, "negative");
  const double none = std::numeric_limits<double>::quiet_NaN();
  expect_refused({{"x", "label"}, {{none, 0}, {none, 1}}}, "no sample has a value");
}

TEST(Glm, LeavesOutSamplesWithAMissingValue) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  TableOf table{{"x", "y"}, {{1, 5}, {2, 7}, {none, 100}, {4, 11}, {5, none}, {10, 23}}};
  table.setup.options.family = GlmFamily::kGaussian;
  const StatisticsResult result = table.run(make_glm);
  EXPECT_NEAR(coefficients(result)[1], 2, 1e-13);
  EXPECT_EQ(number(fact_of(result, "left_out")), 2);
}

TEST(GlmFamily, LogFactorials) {
  for (const double y : {0.0, 1.0, 2.0, 7.0, 15.0, 16.0, 200.0, 1e6}) {
    EXPECT_NEAR(log_factorial_of(y), std::lgamma(y + 1), 1e-14 * std::max(1.0, std::lgamma(y + 1)));
    EXPECT_LE(std::abs(saturated_poisson(y)), largest_saturated_poisson(y));
  }
}

}  // namespace
}  // namespace hanse::test
