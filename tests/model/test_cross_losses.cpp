#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/model/mixing.hpp"
#include "model/support.hpp"

namespace hanse {
namespace {

std::vector<float> random_rows(const Model& model, int64_t n) {
  std::vector<float> rows;
  for (int64_t j = 0; j < n; ++j) {
    const auto row = initial_row(model, static_cast<uint64_t>(j) + 1);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

struct Case {
  std::string kind, loss;
  int64_t inputs, classes, rows;  // rows: parameter rows
};

std::vector<double> crossed(Model& model, const std::vector<float>& rows,
                            const std::vector<Samples>& samples) {
  std::vector<Batch> batches;
  for (const auto& batch : samples) batches.push_back(batch.batch());
  const std::size_t n = rows.size() / static_cast<std::size_t>(model.n_params());
  std::vector<double> losses(n * batches.size());
  model.cross_losses(rows, batches, losses);
  return losses;
}

class CrossLosses : public testing::TestWithParam<Case> {};

// Batches of 1 to 300 samples: a product of all models, and one a model.
TEST_P(CrossLosses, EqualsOneByOne) {
  const auto& [kind, loss, inputs, classes, n] = GetParam();
  const auto model = make_model(model_options(kind, loss, {5}), {inputs}, classes);
  const auto rows = random_rows(*model, n);
  std::vector<Samples> samples;
  for (const int64_t count : {3, 1, 300, 40}) {
    samples.emplace_back(std::vector<int64_t>{inputs}, classes, count, 7 + count);
  }
  const auto losses = crossed(*model, rows, samples);
  const auto width = static_cast<std::size_t>(model->n_params());
  for (std::size_t b = 0; b < samples.size(); ++b) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
      const auto expected =
          model->evaluate(std::span(rows).subspan(j * width, width), samples[b].batch());
      const double mean = expected.loss / static_cast<double>(expected.samples);
      EXPECT_NEAR(losses[b * static_cast<std::size_t>(n) + j], mean, 1e-5 * mean)
          << "batch " << b << ", row " << j;
    }
  }
  // The last batch alone: the same bits.
  const auto alone = crossed(*model, rows, {samples.back()});
  for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j) {
    EXPECT_EQ(alone[j], losses[(samples.size() - 1) * static_cast<std::size_t>(n) + j]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CrossLosses,
                         testing::Values(Case{"linear", "cross-entropy", 784, 10, 37},
                                         Case{"linear", "cross-entropy", 7, 3, 1},
                                         Case{"linear", "binary-logistic", 13, 2, 50},
                                         Case{"linear", "squared-error", 1, 0, 5},
                                         Case{"mlp", "cross-entropy", 9, 4, 3}));

TEST(CrossLosses, OfModelsWithoutBias) {
  ModelOptions options = model_options("linear", "cross-entropy");
  options.bias = false;
  const auto model = make_model(options, {6}, 3);
  ASSERT_EQ(model->n_params(), 18);
  const auto rows = random_rows(*model, 4);
  const Samples samples({6}, 3, 5);
  const auto losses = crossed(*model, rows, {samples});
  for (std::size_t j = 0; j < 4; ++j) {
    const double sum = model->evaluate(std::span(rows).subspan(j * 18, 18), samples.batch()).loss;
    EXPECT_NEAR(losses[j], sum / 5, 1e-6);
  }
}

TEST(MixRows, EqualsTheSlowSum) {
  constexpr int64_t kRows = 3, kTerms = 5, kWidth = 131;
  RandomStream random(1, Purpose::kData);
  std::vector<double> weights(kRows * kTerms);
  std::vector<float> rows(kTerms * kWidth);
  for (double& w : weights) w = random.uniform();
  for (float& x : rows) x = static_cast<float>(random.normal());
  std::fill_n(weights.begin() + kTerms, kTerms, 0.0);  // the second mixture is the fourth row alone
  weights[kTerms + 3] = 1;
  std::vector<float> out(kRows * kWidth);
  mix_rows(weights, rows, kTerms, out);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t k = 0; k < kWidth; ++k) {
      double expected = 0;
      for (int64_t j = 0; j < kTerms; ++j) {
        expected += weights[static_cast<std::size_t>(i * kTerms + j)] *
                    static_cast<double>(rows[static_cast<std::size_t>(j * kWidth + k)]);
      }
      const float found = out[static_cast<std::size_t>(i * kWidth + k)];
      EXPECT_NEAR(found, expected, 1e-5);
      if (i == 1) {
        EXPECT_EQ(found, rows[static_cast<std::size_t>(3 * kWidth + k)]);
      }
    }
  }
}

}  // namespace
}  // namespace hanse
