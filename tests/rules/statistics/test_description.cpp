// Moments, quantiles, histograms and tables of two columns, against their plain definitions.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "rules/statistics/table_of.hpp"

namespace hanse::test {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Columns a (normal), b (whole numbers, some missing), c (large and narrow), sex, label.
TableOf mixed_table(std::size_t n) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(1, 2);
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < n; ++i) {
    rows.push_back({normal(random), i % 7 == 3 ? kMissing : static_cast<double>(i % 5),
                    0x1p23 + static_cast<double>(i % 2), static_cast<double>(i % 3 == 0),
                    static_cast<double>(i % 2)});
  }
  return {{"a", "b", "c", "sex", "label"}, std::move(rows)};
}

double mean_of(const std::vector<double>& x) {
  long double sum = 0;
  for (const double value : x) sum += value;
  return static_cast<double>(sum / x.size());
}

TEST(Moments, AreThoseOfTheDefinition) {
  TableOf table{{"x", "y", "label"}, {{1, 2, 0}, {2, 4, 0}, {3, 6, 1}, {6, 12, 1}}};
  const StatisticsResult result = table.run(make_moments);
  const ResultTable& moments = table_of(result, "moments");
  EXPECT_EQ(numbers_of(moments, "n"), (std::vector<double>{4, 4}));
  EXPECT_EQ(numbers_of(moments, "mean"), (std::vector<double>{3, 6}));
  EXPECT_DOUBLE_EQ(numbers_of(moments, "sd")[0], std::sqrt(14.0 / 3));
  EXPECT_EQ(numbers_of(moments, "min"), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers_of(moments, "max"), (std::vector<double>{6, 12}));
  // Centred: -2, -1, 0, 3: cubes 18, fourth powers 98, squares 14.
  EXPECT_DOUBLE_EQ(numbers_of(moments, "skewness")[0], (18.0 / 4) / std::pow(14.0 / 4, 1.5));
  EXPECT_DOUBLE_EQ(numbers_of(moments, "kurtosis")[0], (98.0 / 4) / (3.5 * 3.5) - 3);
  const ResultTable& covariance = table_of(result, "moments-covariance");
  EXPECT_DOUBLE_EQ(numbers_of(covariance, "y")[0], 28.0 / 3);
  EXPECT_DOUBLE_EQ(numbers_of(table_of(result, "moments-correlation"), "y")[0], 1);
}

TEST(Moments, CancelNothingAtTheEndOfFloat32) {
  const StatisticsResult result = mixed_table(1000).run(make_moments);
  const ResultTable& moments = table_of(result, "moments");
  const double variance = std::pow(numbers_of(moments, "sd")[2], 2);
  EXPECT_NEAR(variance, 0.25 * 1000 / 999, 1e-12);
}

TEST(Moments, CountMissingValuesAndLeaveThemOut) {
  const StatisticsResult result = mixed_table(70).run(make_moments);
  const ResultTable& moments = table_of(result, "moments");
  EXPECT_EQ(numbers_of(moments, "missing")[1], 10);
  std::vector<double> known;
  for (std::size_t i = 0; i < 70; ++i) {
    if (i % 7 != 3) known.push_back(static_cast<double>(i % 5));
  }
  EXPECT_DOUBLE_EQ(numbers_of(moments, "mean")[1], mean_of(known));
  EXPECT_EQ(std::get<int64_t>(fact_of(result, "complete")), 60);
}

// Welch's test of two groups, from its formulas; analysis of variance of two groups is the square
// of the pooled t.
TEST(Moments, CompareGroups) {
  TableOf table{{"x", "g", "label"},
                {{1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {3, 1, 0}, {7, 1, 0}, {8, 1, 0}, {9, 1, 0}}};
  table.setup.options.by = "g";
  const StatisticsResult result = table.run(make_moments);
  const ResultTable& tests = table_of(result, "moments-tests");
  const double m0 = 7.0 / 3, m1 = 27.0 / 4, v0 = 7.0 / 3, v1 = (203 - 729.0 / 4) / 3;
  EXPECT_NEAR(numbers_of(tests, "t")[0], (m0 - m1) / std::sqrt(v0 / 3 + v1 / 4), 1e-12);
  EXPECT_NEAR(numbers_of(tests, "smd")[0], (m0 - m1) / std::sqrt((v0 + v1) / 2), 1e-12);
  const double e0 = v0 / 3, e1 = v1 / 4;
  EXPECT_NEAR(numbers_of(tests, "degrees")[0], (e0 + e1) * (e0 + e1) / (e0 * e0 / 2 + e1 * e1 / 3),
              1e-12);
  EXPECT_EQ(text(table_of(result, "moments").rows[1][0]), "0");
  EXPECT_EQ(numbers_of(table_of(result, "moments"), "n"), (std::vector<double>{7, 3, 4}));
}

TEST(Moments, HideGroupsThatAreSmall) {
  TableOf table{{"x", "g", "label"}, {{1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {3, 1, 0}, {7, 1, 0}}};
  table.setup.options.by = "g";
  table.setup.options.least_count = 3;
  const StatisticsResult result = table.run(make_moments);
  EXPECT_TRUE(std::isnan(numbers_of(table_of(result, "moments"), "n")[2]));
  EXPECT_TRUE(std::isnan(numbers_of(table_of(result, "moments"), "mean")[2]));
  EXPECT_EQ(std::get<int64_t>(fact_of(result, "suppressed")), 1);
}

// numpy's inverted_cdf: the smallest value with a share of at least p at or below it.
TEST(Quantiles, AreTheSmallestValuesThatReachTheirRank) {
  TableOf table = mixed_table(101);
  table.setup.options.probabilities = {0, 0.1, 0.25, 1.0 / 3, 0.5, 0.9, 1};
  table.setup.options.by = "sex";
  const StatisticsResult result = table.run(make_quantiles, {.clients = 3, .ranks = 2});
  std::vector<std::vector<float>> a(3);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(1, 2);
  for (std::size_t i = 0; i < 101; ++i) {
    const float x = normal(random);
    a[0].push_back(x);
    a[i % 3 == 0 ? 2 : 1].push_back(x);
  }
  const ResultTable& quantiles = table_of(result, "quantiles");
  for (const auto& row : quantiles.rows) {
    if (text(row[1]) != "a") continue;
    auto& own = a[text(row[0]) == "all" ? 0 : text(row[0]) == "0" ? 1 : 2];
    std::ranges::sort(own);
    const double rank = std::ceil(number(row[3]) * static_cast<double>(own.size()) - 1e-9);
    EXPECT_EQ(number(row[4]), own[static_cast<std::size_t>(std::max(1.0, rank)) - 1]);
  }
}

TEST(Quantiles, OrderNegativeNumbersAndZeros) {
  TableOf table{{"x", "label"}, {{-0.0, 0}, {-5, 0}, {0, 0}, {1e-30, 0}, {-1e30, 0}}};
  table.setup.options.probabilities = {0.2, 0.4, 0.6, 0.8, 1};
  const StatisticsResult result = table.run(make_quantiles);
  const auto found = numbers_of(table_of(result, "quantiles"), "quantile");
  EXPECT_EQ(found,
            (std::vector<double>{static_cast<float>(-1e30), -5, 0, 0, static_cast<float>(1e-30)}));
}

TEST(Histogram, CountsByBinsWhoseLastIsClosed) {
  TableOf table{{"x", "label"}, {{0, 0}, {1, 0}, {1, 0}, {2, 0}, {4, 0}, {kMissing, 0}}};
  table.setup.options.bins = 4;
  const StatisticsResult even = table.run(make_histogram);
  EXPECT_EQ(numbers_of(table_of(even, "histogram"), "count"), (std::vector<double>{1, 2, 1, 1}));
  table.setup.options.edges = {1, 2, 3};
  const StatisticsResult given = table.run(make_histogram);
  const ResultTable& histogram = table_of(given, "histogram");
  EXPECT_EQ(numbers_of(histogram, "count"), (std::vector<double>{1, 2, 1, 1}));
  EXPECT_EQ(numbers_of(histogram, "low")[0], -INFINITY);
  EXPECT_EQ(numbers_of(histogram, "high")[3], INFINITY);
}

TEST(Histogram, GivesEqualValuesABin) {
  TableOf table{{"x", "label"}, {{3, 0}, {3, 0}}};
  table.setup.options.bins = 2;
  const StatisticsResult result = table.run(make_histogram);
  const ResultTable& histogram = table_of(result, "histogram");
  EXPECT_EQ(numbers_of(histogram, "low"), (std::vector<double>{2.5, 3}));
  EXPECT_EQ(numbers_of(histogram, "count"), (std::vector<double>{0, 2}));
}

// Two by two, by hand: counts 8 2 / 1 9; expected 4.5 5.5 / 4.5 5.5.
TEST(Crosstab, TestsIndependence) {
  std::vector<std::vector<double>> rows;
  for (const auto& [r, c, count] : {std::tuple{0, 0, 8}, {0, 1, 2}, {1, 0, 1}, {1, 1, 9}}) {
    for (int i = 0; i < count; ++i)
      rows.push_back({static_cast<double>(r), static_cast<double>(c)});
  }
  rows.push_back({kMissing, 1});
  TableOf table{{"r", "label"}, std::move(rows)};
  table.levels("label") = {"healthy", "ill"};
  table.setup.options.rows = "r";
  table.setup.options.by = "label";
  const StatisticsResult result = table.run(make_crosstab);
  EXPECT_EQ(table_of(result, "crosstab").columns[2], "ill");
  EXPECT_EQ(numbers_of(table_of(result, "crosstab"), "healthy"), (std::vector<double>{8, 1}));
  const double chi2 = 2 * (3.5 * 3.5 / 4.5 + 3.5 * 3.5 / 5.5);
  EXPECT_NEAR(number(fact_of(result, "chi2")), chi2, 1e-12);
  EXPECT_NEAR(number(fact_of(result, "p")), std::erfc(std::sqrt(chi2 / 2)), 1e-14);
  EXPECT_EQ(number(fact_of(result, "missing")), 1);
  table.setup.options.least_count = 3;
  const StatisticsResult hidden = table.run(make_crosstab);
  EXPECT_EQ(number(fact_of(hidden, "suppressed")), 2);
  EXPECT_TRUE(std::isnan(number(fact_of(hidden, "chi2"))));
}

TEST(Statistics, NameTheColumnsThatThereAre) {
  TableOf table = mixed_table(10);
  table.setup.options.columns = "a,no*";
  EXPECT_THROW(table.run(make_moments), InvalidArgument);
  table.setup.options.columns = "a";
  table.setup.options.by = "hospital";
  EXPECT_THROW(table.run(make_quantiles), InvalidArgument);
}

// One answer, however samples lie.
TEST(Statistics, DoNotDependOnClientsRanksAndBlocks) {
  TableOf table = mixed_table(500);
  table.setup.options.by = "sex";
  table.setup.options.rows = "label";
  table.setup.options.clusters = 3;
  table.setup.options.starts = 2;
  for (const AnalysisMaker make : {make_moments, make_quantiles, make_histogram, make_crosstab,
                                   make_glm, make_pca, make_kmeans, make_gmm}) {
    table.setup.options.columns = make == make_glm || make == make_gmm ? "a,b" : "*";
    std::vector<int64_t> integers;
    const std::string one = whole_text(table.run(make, {}, &integers));
    for (const Division& division : {Division{7, 1, 512}, {7, 3, 10}, {100, 4, 1}}) {
      std::vector<int64_t> others;
      EXPECT_EQ(whole_text(table.run(make, division, &others)), one);
      EXPECT_EQ(others, integers);
    }
  }
}

}  // namespace
}  // namespace hanse::test
