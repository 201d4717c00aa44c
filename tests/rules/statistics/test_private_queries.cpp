// Private statistics: how far a sample moves their answers, and what they make of answers.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "rules/statistics/table_of.hpp"

namespace hanse::test {
namespace {

AnalysisSetup bounded(const std::vector<double>& low, const std::vector<double>& high) {
  AnalysisSetup setup;
  setup.table.columns = {{"x", {}}, {"y", {}}, {"label", {}}};
  setup.table.labels = 1;
  setup.options.low = low;
  setup.options.high = high;
  setup.options.bins = 5;
  return setup;
}

// The counts that one sample adds.
std::vector<int64_t> counts_of(const Analysis& analysis, const std::vector<float>& row) {
  Findings findings = analysis.open({});
  const std::vector<int64_t> places{0};
  analysis.look({}, {.values = row, .places = places, .width = row.size()}, findings);
  return findings.counts;
}

// No sample moves the answer by more than it says, and one does by nearly as much.
void expect_reach(const Analysis& analysis, double least_share) {
  const auto reach = static_cast<double>(analysis.squared_reach());
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-30, 30);
  double most = 0;
  const auto see = [&](float x, float y, float label) {
    double sum = 0;
    for (const int64_t count : counts_of(analysis, {x, y, label})) {
      sum += static_cast<double>(count) * static_cast<double>(count);
    }
    most = std::max(most, sum);
    EXPECT_LE(sum, reach) << x << " " << y;
  };
  for (int i = 0; i < 500; ++i) see(uniform(random), uniform(random), uniform(random));
  for (const float x : {-1e30F, -2.0F, 10.0F, 1e30F}) {
    for (const float y : {-1e30F, 0.0F, 1.0F, 1e30F}) see(x, y, x);
  }
  see(std::numeric_limits<float>::quiet_NaN(), 1, 1);
  EXPECT_GE(most, least_share * reach);
}

TEST(PrivateQueries, NoSampleMovesAnAnswerFurtherThanItSays) {
  const AnalysisSetup setup = bounded({-2, 0}, {10, 1});
  expect_reach(*make_private_moments(setup), 1);
  expect_reach(*make_private_histogram(setup), 1);
  expect_reach(*make_private_quantiles(setup), 1);
  AnalysisSetup table = bounded({0, -1}, {3, 2});
  table.options.rows = "x";
  table.options.by = "label";
  expect_reach(*make_private_crosstab(table), 1);
}

TEST(PrivateQueries, AnswersWithoutNoiseAreTheStatistics) {
  TableOf table{{"x", "y", "label"}, {{1, 0.5, 0}, {4, 0.25, 1}, {-9, 1, 1}, {10, 0, 0}}};
  table.setup.options = bounded({-2, 0}, {10, 1}).options;
  const StatisticsResult moments = table.run(make_private_moments, {.clients = 2, .ranks = 2});
  const ResultTable& found = table_of(moments, "moments");
  EXPECT_NEAR(numbers_of(found, "n")[0], 4, 1e-12);
  EXPECT_NEAR(numbers_of(found, "mean")[0], 13.0 / 4, 2e-5);  // -9 counts as -2
  const double squares = 1 + 16 + 4 + 100 - 13.0 * 13 / 4;
  EXPECT_NEAR(numbers_of(found, "sd")[0], std::sqrt(squares / 3), 1e-4);
  const StatisticsResult histogram = table.run(make_private_histogram);
  EXPECT_EQ(numbers_of(table_of(histogram, "histogram"), "count"),
            (std::vector<double>{1, 1, 1, 0, 1, 1, 1, 1, 0, 1}));
  table.setup.options.probabilities = {0.5, 1};
  const StatisticsResult quantiles = table.run(make_private_quantiles);
  EXPECT_NEAR(numbers_of(table_of(quantiles, "quantiles"), "quantile")[0], -2 + 2.4 * 2, 1e-12);
  EXPECT_NEAR(numbers_of(table_of(quantiles, "quantiles"), "quantile")[1], 10, 1e-12);
  table.setup.options.rows = "label";
  table.setup.options.by = "y";
  table.setup.options.low = {0, 0};
  table.setup.options.high = {1, 1};
  const StatisticsResult crosstab = table.run(make_private_crosstab);
  EXPECT_EQ(numbers_of(table_of(crosstab, "crosstab"), "0"), (std::vector<double>{2, 1}));
}

TEST(PrivateQueries, NeedPublicBounds) {
  EXPECT_THROW(make_private_moments(bounded({0}, {1, 1})), InvalidArgument);
  EXPECT_THROW(make_private_histogram(bounded({0, 1}, {1, 1})), InvalidArgument);
  AnalysisSetup grouped = bounded({0, 0}, {1, 1});
  grouped.options.by = "label";
  EXPECT_THROW(make_private_moments(grouped), InvalidArgument);
  AnalysisSetup crosstab = bounded({0, 0.5}, {1, 1});
  crosstab.options.rows = "x";
  crosstab.options.by = "label";
  EXPECT_THROW(make_private_crosstab(crosstab), InvalidArgument);
}

}  // namespace
}  // namespace hanse::test
