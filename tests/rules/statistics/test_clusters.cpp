// Principal components, k-means and mixtures.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "rules/statistics/table_of.hpp"

namespace hanse::test {
namespace {

// Three clouds far apart, of 40, 30 and 20 samples.
TableOf clouds() {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 0.1F);
  std::vector<std::vector<double>> rows;
  for (const auto& [x, y, count] : {std::tuple{0, 0, 40}, {10, 0, 30}, {0, 20, 20}}) {
    for (int i = 0; i < count; ++i) rows.push_back({x + normal(random), y + normal(random), 0});
  }
  TableOf table{{"x", "y", "label"}, std::move(rows)};
  table.setup.options.clusters = 3;
  table.setup.seed = 7;
  return table;
}

TEST(Pca, FindsTheAxesOfTwoColumns) {
  // Covariance [[2, 1], [1, 2]] x 4/3: eigenvalues 4 and 4/3, axes (1, 1) and (1, -1).
  const double a = std::sqrt(1.5), b = std::sqrt(0.5);
  TableOf table{{"x", "y", "label"},
                {{a + b, a - b, 0}, {-a + b, -a - b, 0}, {a - b, a + b, 0}, {-a - b, -a + b, 0}}};
  table.setup.options.scale = PcaScale::kCovariance;
  const StatisticsResult result = table.run(make_pca, {.clients = 2, .ranks = 2});
  const auto values = numbers_of(table_of(result, "pca"), "eigenvalue");
  EXPECT_NEAR(values[0], 4, 1e-6);
  EXPECT_NEAR(values[1], 4.0 / 3, 1e-6);
  EXPECT_NEAR(numbers_of(table_of(result, "pca"), "share")[0], 0.75, 1e-6);
  EXPECT_NEAR(numbers_of(table_of(result, "pca-components"), "x")[0], std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(numbers_of(table_of(result, "pca-components"), "y")[0], std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(std::abs(numbers_of(table_of(result, "pca-components"), "y")[1]), std::sqrt(0.5),
              1e-6);
}

TEST(Pca, NamesAConstantColumn) {
  TableOf table{{"x", "k", "label"}, {{1, 5, 0}, {2, 5, 0}, {4, 5, 0}}};
  EXPECT_THROW(table.run(make_pca), InvalidArgument);
}

TEST(KMeans, FindsTheCloudsAndTheirMeans) {
  const TableOf table = clouds();
  const StatisticsResult result = table.run(make_kmeans, {.clients = 9, .ranks = 3});
  const ResultTable& found = table_of(result, "kmeans");
  auto counts = numbers_of(found, "count");
  for (std::size_t c = 0; c < 3; ++c) {
    const std::size_t begin = counts[c] == 40 ? 0 : counts[c] == 30 ? 40 : 70;
    double x = 0, y = 0;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(counts[c]); ++i) {
      x += static_cast<float>(table.rows()[i][0]) / counts[c];
      y += static_cast<float>(table.rows()[i][1]) / counts[c];
    }
    EXPECT_NEAR(numbers_of(found, "x")[c], x, 1e-11);
    EXPECT_NEAR(numbers_of(found, "y")[c], y, 1e-11);
  }
  std::ranges::sort(counts);
  EXPECT_EQ(counts, (std::vector<double>{20, 30, 40}));
}

// A second centre is drawn with a probability as the squared distance: here 1 : 4 : 0.
TEST(KMeans, DrawsCentresByTheirSquaredDistance) {
  TableOf table{{"x", "label"}, {{0, 0}, {1, 0}, {2, 0}}};
  table.setup.options.clusters = 2;
  table.setup.options.starts = 1;
  table.setup.options.iterations = 1;
  int64_t far = 0, from_an_end = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    table.setup.seed = seed;
    const auto x = numbers_of(table_of(table.run(make_kmeans), "kmeans"), "x");
    if (std::abs(x[0] - 1) < 0.5) continue;
    ++from_an_end;
    far += std::abs(x[1] - 1) > 0.5 ? 1 : 0;
  }
  EXPECT_NEAR(from_an_end, 400, 5 * std::sqrt(600 * 2.0 / 9));
  const auto n = static_cast<double>(from_an_end);
  EXPECT_NEAR(static_cast<double>(far), 0.8 * n, 5 * std::sqrt(n * 0.16));
}

TEST(KMeans, RefusesFewerSamplesThanClusters) {
  TableOf table{{"x", "label"}, {{0, 0}, {1, 0}}};
  table.setup.options.clusters = 3;
  EXPECT_THROW(table.run(make_kmeans), InvalidArgument);
}

// Clouds so far apart that every sample belongs to one law: its moments are the cloud's.
TEST(Gmm, FindsTheCloudsMoments) {
  const TableOf table = clouds();
  const StatisticsResult result = table.run(make_gmm, {.clients = 4, .ranks = 2});
  const ResultTable& found = table_of(result, "gmm");
  const auto weights = numbers_of(found, "weight");
  for (std::size_t c = 0; c < 3; ++c) {
    const auto count = static_cast<std::size_t>(std::lround(90 * weights[c]));
    const std::size_t begin = count == 40 ? 0 : count == 30 ? 40 : 70;
    double mean = 0, square = 0;
    for (std::size_t i = begin; i < begin + count; ++i)
      mean += static_cast<float>(table.rows()[i][0]);
    mean /= static_cast<double>(count);
    for (std::size_t i = begin; i < begin + count; ++i) {
      square += std::pow(static_cast<float>(table.rows()[i][0]) - mean, 2);
    }
    EXPECT_NEAR(90 * weights[c], static_cast<double>(count), 1e-8);
    EXPECT_NEAR(numbers_of(found, "x")[c], mean, 1e-9);
    const auto own = numbers_of(table_of(result, "gmm-covariances"), "x")[2 * c];
    EXPECT_NEAR(own, square / static_cast<double>(count), 1e-4);  // and a ridge of 1e-6 variances
  }
}

}  // namespace
}  // namespace hanse::test
