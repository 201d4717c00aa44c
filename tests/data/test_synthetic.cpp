// Linear regression on clients of unequal scale, against its definition in data/made-up.md and
// against what the samples themselves say of the law they were drawn from.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/data/federation.hpp"
#include "support.hpp"
#include "support/chi_square.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

DataOptions dense(double sigma, FeatureScale scale = FeatureScale::kCovariance,
                  int64_t dimension = 10) {
  return {.kind = "synthetic-regression", .dimension = dimension, .sigma = sigma, .scale = scale};
}

DataOptions support(double nu, int64_t dimension = 10) {
  return {
      .kind = "synthetic-regression", .design = Design::kSupport, .dimension = dimension, .nu = nu};
}

// Mean of x_j^2 over samples [begin, end), for every coordinate.
std::vector<double> second_moments(const Dataset& dataset, std::size_t begin, std::size_t end) {
  const auto d = static_cast<std::size_t>(dataset.shape[0]);
  const std::vector<float> x = features_of(dataset);
  std::vector<double> moments(d);
  for (std::size_t i = begin; i < end; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      const double value = static_cast<double>(x[i * d + j]);
      moments[j] += value * value / static_cast<double>(end - begin);
    }
  }
  return moments;
}

// Solves a x = b, a [n, n], by Gaussian elimination with pivots; slow and obvious.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t r = k; r < n; ++r) {
      if (std::abs(a[r][k]) > std::abs(a[pivot][k])) pivot = r;
    }
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == k) continue;
      const double factor = a[r][k] / a[k][k];
      for (std::size_t c = k; c < n; ++c) a[r][c] -= factor * a[k][c];
      b[r] -= factor * b[k];
    }
  }
  for (std::size_t k = 0; k < n; ++k) b[k] /= a[k][k];
  return b;
}

struct Fit {
  std::vector<double> w;  // [d]
  double deviation = 0;   // of the residuals
};

// Least squares of the targets on the features, without intercept, over all samples.
Fit least_squares(const Dataset& dataset) {
  const auto d = static_cast<std::size_t>(dataset.shape[0]);
  const std::vector<float> x = features_of(dataset);
  std::vector<std::vector<double>> gram(d, std::vector<double>(d));
  std::vector<double> moment(d);
  for (std::size_t i = 0; i < dataset.targets.size(); ++i) {
    const float* row = &x[i * d];
    for (std::size_t j = 0; j < d; ++j) {
      moment[j] += static_cast<double>(row[j]) * static_cast<double>(dataset.targets[i]);
      for (std::size_t k = 0; k < d; ++k) {
        gram[j][k] += static_cast<double>(row[j]) * static_cast<double>(row[k]);
      }
    }
  }
  Fit fit{.w = solve(gram, moment)};
  double squares = 0;
  for (std::size_t i = 0; i < dataset.targets.size(); ++i) {
    double residual = static_cast<double>(dataset.targets[i]);
    for (std::size_t j = 0; j < d; ++j) residual -= fit.w[j] * static_cast<double>(x[i * d + j]);
    squares += residual * residual;
  }
  fit.deviation = std::sqrt(squares / static_cast<double>(dataset.targets.size() - d));
  return fit;
}

// s_m of every client, from its first feature: the same normal numbers stand behind the features of
// clients that are all alike (sigma = 0: every s_m is 10).
std::vector<double> scales_of(double sigma, int64_t clients, uint64_t seed) {
  const auto unequal = features_of(make_synthetic_regression(dense(sigma), clients, 1, seed));
  const auto alike = features_of(make_synthetic_regression(dense(0), clients, 1, seed));
  std::vector<double> scales;
  for (std::size_t at = 0; at < alike.size(); at += 10) {
    const double root = static_cast<double>(unequal[at]) / static_cast<double>(alike[at]);
    scales.push_back(10 * root * root);
  }
  return scales;
}

// The definition in data/made-up.md, word for word.
TEST(SyntheticRegression, IsThreeStreams) {
  constexpr uint64_t kSeed = 42;
  const Dataset dataset =
      make_synthetic_regression(dense(2, FeatureScale::kDeviation, 3), 4, 5, kSeed);
  const std::vector<float> x = features_of(dataset);
  RandomStream coefficients(kSeed, Purpose::kData, 1, 0);
  std::vector<double> w, z;
  for (int j = 0; j < 3; ++j) w.push_back(10 + 3 * coefficients.normal());
  for (uint64_t m = 0; m < 4; ++m) z.push_back(RandomStream(kSeed, Purpose::kData, 2, m).normal());
  const double largest = std::exp(2 * *std::max_element(z.begin(), z.end()));
  const double sigma_jj[] = {1.0 / 25, 1.0 / 5, 1};
  for (uint64_t m = 0; m < 4; ++m) {
    RandomStream stream(kSeed, Purpose::kData, 0, m);
    for (std::size_t i = m * 5; i < m * 5 + 5; ++i) {
      double y = 0;
      for (std::size_t j = 0; j < 3; ++j) {
        const double s = 10 * std::exp(2 * z[m]) / largest;
        const double expected = s * sigma_jj[j] * stream.normal();
        EXPECT_NEAR(x[i * 3 + j], expected, 1e-6 * std::abs(expected));
        y += w[j] * static_cast<double>(x[i * 3 + j]);
      }
      EXPECT_FLOAT_EQ(dataset.targets[i], static_cast<float>(y + 0.1 * stream.normal()));
      EXPECT_EQ(dataset.groups[i], static_cast<int64_t>(m));
    }
  }
}

TEST(SyntheticRegression, IsRegressionDataWithAGroupAClient) {
  const Dataset dataset =
      make_synthetic_regression(dense(3, FeatureScale::kCovariance, 7), 12, 3, 1);
  EXPECT_EQ(dataset.shape, std::vector<int64_t>{7});
  EXPECT_EQ(dataset.storage, Storage::kFloat);
  EXPECT_EQ(dataset.classes, 0);
  EXPECT_TRUE(dataset.labels.empty());
  EXPECT_EQ(dataset.size(), 36);
  EXPECT_EQ(dataset.features.size(), 36U * 7 * sizeof(float));
  ASSERT_EQ(dataset.group_names.size(), 12U);
  EXPECT_EQ(dataset.group_names[11], "11");
}

// Covariance s Sigma: every coordinate's variance in closed form, so the condition number is 25.
TEST(SyntheticRegression, CovarianceIsTheOneOfThePaper) {
  const Dataset dataset = make_synthetic_regression(dense(0), 20, 2000, 3);
  const std::vector<double> moments = second_moments(dataset, 0, 40000);
  for (std::size_t j = 0; j < 10; ++j) {
    const double variance = 10 * std::pow(25.0, static_cast<double>(j) / 9 - 1);
    EXPECT_NEAR(moments[j] / variance, 1, 5 * std::sqrt(2.0 / 40000)) << j;
  }
  EXPECT_NEAR(moments[9] / moments[0], 25, 25 * 0.05);
}

// Covariance s^2 Sigma^2: condition number 625.
TEST(SyntheticRegression, DeviationIsTheOneOfTheAuthorsCode) {
  const Dataset dataset =
      make_synthetic_regression(dense(0, FeatureScale::kDeviation), 20, 2000, 3);
  const std::vector<double> moments = second_moments(dataset, 0, 40000);
  for (std::size_t j = 0; j < 10; ++j) {
    const double deviation = 10 * std::pow(25.0, static_cast<double>(j) / 9 - 1);
    EXPECT_NEAR(moments[j] / (deviation * deviation), 1, 5 * std::sqrt(2.0 / 40000)) << j;
  }
  EXPECT_NEAR(moments[9] / moments[0], 625, 625 * 0.05);
}

// The largest client's last coordinate has variance 10, since Sigma_dd = 1.
TEST(SyntheticRegression, TheLargestScaleIsTen) {
  for (const double sigma : {1.0, 3.0, 10.0}) {
    const std::vector<double> scales = scales_of(sigma, 17, 5);
    const auto largest = std::max_element(scales.begin(), scales.end());
    EXPECT_NEAR(*largest, 10, 1e-5) << sigma;
    const auto m = static_cast<std::size_t>(largest - scales.begin());
    const Dataset dataset = make_synthetic_regression(dense(sigma), 17, 20000, 5);
    EXPECT_NEAR(second_moments(dataset, m * 20000, (m + 1) * 20000)[9], 10, 0.5) << sigma;
  }
}

TEST(SyntheticRegression, LogScalesAreNormal) {
  constexpr double kClients = 4000;
  for (const double sigma : {0.5, 3.0}) {
    const std::vector<double> scales = scales_of(sigma, 4000, 11);
    double mean = 0, square = 0, cube = 0;
    for (const double s : scales) mean += std::log(s) / kClients;
    for (const double s : scales) {
      const double z = (std::log(s) - mean) / sigma;
      square += z * z / kClients;
      cube += z * z * z / kClients;
    }
    EXPECT_NEAR(square, 1, 4 * std::sqrt(2 / kClients)) << sigma;
    EXPECT_NEAR(cube, 0, 4 * std::sqrt(15 / kClients)) << sigma;
  }
}

TEST(SyntheticRegression, TargetsAreLinearWithNoise) {
  for (const FeatureScale scale : {FeatureScale::kCovariance, FeatureScale::kDeviation}) {
    const Fit fit = least_squares(make_synthetic_regression(dense(1, scale), 50, 400, 7));
    EXPECT_NEAR(fit.deviation, 0.1, 4 * 0.1 / std::sqrt(2 * 20000.0));
  }
}

TEST(SyntheticRegression, CoefficientsAreNormalAroundTen) {
  std::vector<double> w;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Fit fit = least_squares(make_synthetic_regression(dense(0), 3, 100, seed));
    w.insert(w.end(), fit.w.begin(), fit.w.end());
  }
  const double n = static_cast<double>(w.size());
  double mean = 0, variance = 0;
  for (const double value : w) mean += value / n;
  for (const double value : w) variance += (value - mean) * (value - mean) / n;
  EXPECT_NEAR(mean, 10, 4 * 3 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(variance), 3, 4 * 3 / std::sqrt(2 * n));
}

TEST(SyntheticRegression, SameSeedSameBytes) {
  for (const DataOptions& options : {dense(3), support(1)}) {
    const Dataset first = make_synthetic_regression(options, 6, 9, 8);
    const Dataset second = make_synthetic_regression(options, 6, 9, 8);
    const Dataset other = make_synthetic_regression(options, 6, 9, 9);
    EXPECT_EQ(first.features, second.features);
    EXPECT_EQ(first.targets, second.targets);
    EXPECT_NE(first.features, other.features);
    EXPECT_NE(first.targets, other.targets);
  }
}

TEST(SyntheticRegression, NoNumberIsDrawnTwice) {
  const std::vector<float> x = features_of(make_synthetic_regression(dense(0), 40, 5, 8));
  EXPECT_EQ(std::set<float>(x.begin(), x.end()).size(), x.size());
}

TEST(SyntheticRegression, MoreSamplesLeaveTheFirstOnesAlone) {
  const Dataset few = make_synthetic_regression(dense(3), 4, 3, 8);
  const Dataset many = make_synthetic_regression(dense(3), 4, 7, 8);
  const std::vector<float> x_few = features_of(few), x_many = features_of(many);
  for (std::size_t m = 0; m < 4; ++m) {
    EXPECT_TRUE(std::equal(&x_few[m * 30], &x_few[m * 30] + 30, &x_many[m * 70]));
    EXPECT_TRUE(std::equal(&few.targets[m * 3], &few.targets[m * 3] + 3, &many.targets[m * 7]));
  }
}

// More clients change the features of the first ones by one common factor, and nothing when the
// scales are alike.
TEST(SyntheticRegression, MoreClientsChangeTheCommonFactorOnly) {
  const auto few = features_of(make_synthetic_regression(dense(0), 3, 4, 8));
  const auto many = features_of(make_synthetic_regression(dense(0), 30, 4, 8));
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));

  const auto unequal_few = features_of(make_synthetic_regression(dense(3), 3, 4, 8));
  const auto unequal_many = features_of(make_synthetic_regression(dense(3), 30, 4, 8));
  const double factor = static_cast<double>(unequal_many[0]) / static_cast<double>(unequal_few[0]);
  EXPECT_LT(factor, 0.99);  // otherwise the largest client is among the first and nothing is shown
  for (std::size_t i = 0; i < unequal_few.size(); ++i) {
    const double expected = factor * static_cast<double>(unequal_few[i]);
    EXPECT_NEAR(unequal_many[i], expected, 1e-6 * std::abs(expected));
  }
}

TEST(SyntheticRegression, OneFeatureHasSigmaOne) {
  const Dataset paper =
      make_synthetic_regression(dense(0, FeatureScale::kCovariance, 1), 2, 20000, 4);
  EXPECT_NEAR(second_moments(paper, 0, 40000)[0], 10, 0.5);
  const Dataset code =
      make_synthetic_regression(dense(0, FeatureScale::kDeviation, 1), 2, 20000, 4);
  EXPECT_NEAR(second_moments(code, 0, 40000)[0], 100, 5);
}

TEST(SyntheticRegression, AClientAloneHasTheLargestScale) {
  const auto unequal = make_synthetic_regression(dense(10), 1, 20, 4);
  EXPECT_EQ(unequal.features, make_synthetic_regression(dense(0), 1, 20, 4).features);
  EXPECT_EQ(unequal.group_names, std::vector<std::string>{"0"});
}

TEST(SyntheticRegression, EveryValueIsFinite) {
  DataOptions hard = dense(10);
  hard.kappa = 1e300;
  for (const DataOptions& options :
       {dense(10), dense(1e300), dense(1e300, FeatureScale::kDeviation), hard, support(10),
        support(10, 1000)}) {
    const Dataset dataset = make_synthetic_regression(options, 500, 3, 2);
    for (const float x : features_of(dataset)) ASSERT_TRUE(std::isfinite(x));
    for (const float y : dataset.targets) ASSERT_TRUE(std::isfinite(y));
  }
}

// The one coordinate of every client, from its first sample.
std::vector<std::size_t> supports_of(const std::vector<float>& x, std::size_t d,
                                     std::size_t samples) {
  std::vector<std::size_t> supports;
  for (std::size_t at = 0; at < x.size(); at += d * samples) {
    supports.push_back(0);
    while (x[at + supports.back()] == 0) ++supports.back();
  }
  return supports;
}

TEST(SyntheticSupport, OneCoordinateAClientAroundOne) {
  constexpr std::size_t kClients = 700, kSamples = 20, kDimension = 7;
  const auto x = features_of(make_synthetic_regression(support(1, 7), 700, 20, 6));
  const auto supports = supports_of(x, kDimension, kSamples);
  std::vector<int64_t> clients(kDimension);
  double mean = 0, variance = 0;
  for (std::size_t m = 0; m < kClients; ++m) {
    ++clients[supports[m]];
    for (std::size_t i = m * kSamples; i < (m + 1) * kSamples; ++i) {
      for (std::size_t j = 0; j < kDimension; ++j) {
        ASSERT_EQ(x[i * kDimension + j] != 0, j == supports[m]) << m;
      }
      const double value = static_cast<double>(x[i * kDimension + supports[m]]);
      mean += value / (kClients * kSamples);
      variance += (value - 1) * (value - 1) / (kClients * kSamples);
    }
  }
  expect_equally_likely(clients);
  EXPECT_NEAR(mean, 1, 4 * 0.1 / std::sqrt(14000.0));
  EXPECT_NEAR(std::sqrt(variance), 0.1, 4 * 0.1 / std::sqrt(28000.0));
}

TEST(SyntheticSupport, LogCoefficientsAreNormal) {
  constexpr double kNu = 0.5;
  std::vector<double> logs;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Fit fit = least_squares(make_synthetic_regression(support(kNu), 200, 50, seed));
    EXPECT_NEAR(fit.deviation, 0.1, 5 * 0.1 / std::sqrt(20000.0));
    for (const double w : fit.w) logs.push_back(std::log(w));
  }
  const double n = static_cast<double>(logs.size());
  double mean = 0, variance = 0;
  for (const double value : logs) mean += value / n;
  for (const double value : logs) variance += (value - mean) * (value - mean) / n;
  EXPECT_NEAR(mean, 0, 4 * kNu / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(variance), kNu, 4 * kNu / std::sqrt(2 * n));
}

TEST(SyntheticSupport, DoesNotDependOnTheOtherClients) {
  const Dataset few = make_synthetic_regression(support(2), 3, 4, 8);
  const Dataset many = make_synthetic_regression(support(2), 30, 4, 8);
  EXPECT_TRUE(std::equal(few.features.begin(), few.features.end(), many.features.begin()));
  EXPECT_TRUE(std::equal(few.targets.begin(), few.targets.end(), many.targets.begin()));
}

TEST(SyntheticRegression, BadOptionsAreRefused) {
  const auto expect_bad = [](const DataOptions& options, const std::vector<std::string>& parts) {
    expect_invalid([&] { make_synthetic_regression(options, 3, 2, 1); }, parts);
  };
  expect_bad(dense(3, FeatureScale::kCovariance, 0), {"data.dimension is 0"});
  expect_bad(dense(-1), {"data.sigma is -1", "[0, inf)"});
  expect_bad(dense(std::nan("")), {"data.sigma"});
  expect_bad(support(10.5), {"data.nu is 10.5", "[0, 10]"});
  DataOptions options = dense(3);
  options.kappa = 0.5;
  expect_bad(options, {"data.kappa is 0.5"});
  expect_invalid([] { make_synthetic_regression(dense(3), 0, 2, 1); }, {"0 clients"});
  expect_invalid([] { make_synthetic_regression(dense(3), int64_t{1} << 40, 1 << 20, 1); },
                 {"federation.samples", "fit in memory"});
}

Federation load_alone(const DataOptions& data, const FederationOptions& options) {
  return Federation::load(data, options, 8, *make_single_communicator());
}

// More than ten clients, so that an order by name would show.
TEST(SyntheticFederation, ClientsHaveTheirOwnSamples) {
  DataOptions data = dense(3);
  data.test_fraction = 0;
  const FederationOptions options{.clients = 12, .partition = "by-column", .samples = 5};
  const Federation federation = load_alone(data, options);
  const Dataset dataset = make_synthetic_regression(data, 12, 5, 8);
  ASSERT_EQ(federation.clients(), 12);
  EXPECT_EQ(federation.classes(), 0);
  EXPECT_EQ(federation.sample_shape(), std::vector<int64_t>{10});
  std::vector<float> x(600);
  federation.copy({0, 60}, x.data());
  EXPECT_EQ(x, features_of(dataset));
  EXPECT_TRUE(std::equal(dataset.targets.begin(), dataset.targets.end(),
                         federation.targets().begin(), federation.targets().end()));
  for (int64_t m = 0; m < 12; ++m) {
    EXPECT_EQ(federation.train(m).begin, 5 * m);
    EXPECT_EQ(federation.train(m).end, 5 * m + 5);
  }
  data.test_fraction = 0.4;
  EXPECT_EQ(load_alone(data, options).train(11).size(), 3);
}

TEST(SyntheticFederation, OtherPartitionsAreRefused) {
  for (const std::string partition : {"iid", "sizes"}) {
    try {
      load_alone(dense(3), {.clients = 3, .partition = partition});
      ADD_FAILURE() << partition << " was taken";
    } catch (const AgreedError& error) {
      const std::string what = error.what();
      EXPECT_EQ(error.exit_status(), ExitStatus::kBadInput);
      EXPECT_NE(what.find("federation.partition"), std::string::npos) << what;
      EXPECT_NE(what.find("use by-column"), std::string::npos) << what;
    }
  }
}

}  // namespace
}  // namespace hanse
