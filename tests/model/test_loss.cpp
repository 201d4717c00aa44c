#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/loss.hpp"

namespace hanse {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Softmax {
  double loss = 0;             // sum over rows
  std::vector<double> deltas;  // [rows, outputs], of the mean loss
};

Softmax slow_cross_entropy(const std::vector<float>& z, const std::vector<int32_t>& labels,
                           std::size_t outputs) {
  Softmax result;
  const std::size_t rows = labels.size();
  for (std::size_t r = 0; r < rows; ++r) {
    const float* row = z.data() + r * outputs;
    long double largest = row[0], sum = 0;
    for (std::size_t c = 0; c < outputs; ++c) largest = std::max<long double>(largest, row[c]);
    for (std::size_t c = 0; c < outputs; ++c) sum += std::exp(row[c] - largest);
    const auto label = static_cast<std::size_t>(labels[r]);
    result.loss += static_cast<double>(std::log(sum) + largest - row[label]);
    for (std::size_t c = 0; c < outputs; ++c) {
      const long double p = std::exp(row[c] - largest) / sum - (c == label ? 1 : 0);
      result.deltas.push_back(static_cast<double>(p) / static_cast<double>(rows));
    }
  }
  return result;
}

Batch labelled(const std::vector<int32_t>& labels) {
  return {nullptr, labels.data(), nullptr, static_cast<int64_t>(labels.size())};
}

// How many classes are preferred to the label: of equal ones the first, and NaN to all.
TEST(Ranks, OfTheLabels) {
  const std::vector<float> row = {1, 5, -2, 5, 3, kNan};
  std::vector<float> z;
  for (int i = 0; i < 6; ++i) z.insert(z.end(), row.begin(), row.end());
  std::vector<int32_t> ranks(7, -7);
  const std::vector<int32_t> labels = {0, 1, 2, 3, 4, 5};
  const auto loss = make_loss("cross-entropy", 6);
  loss->evaluate(labelled(labels), z.data(), {.ranks = ranks.data()});
  EXPECT_EQ(ranks, (std::vector<int32_t>{4, 1, 5, 2, 3, 5, -7}));
  RandomStream stream(5, Purpose::kData);
  std::vector<float> random(6 * 40);
  for (float& v : random) v = static_cast<float>(stream.below(4));  // many ties
  std::vector<int32_t> drawn(40), found(40);
  for (int32_t& label : drawn) label = static_cast<int32_t>(stream.below(6));
  const auto sums = loss->evaluate(labelled(drawn), random.data(), {.ranks = found.data()});
  EXPECT_EQ(static_cast<double>(std::count(found.begin(), found.end(), 0)), sums.correct);
  std::vector<float> one = {2, 2, -2, -2, 0, 0};
  make_loss("binary-logistic", 2)
      ->evaluate(labelled({1, 0, 1, 0, 1, 0}), one.data(), {.ranks = ranks.data()});
  EXPECT_EQ(ranks, (std::vector<int32_t>{0, 1, 1, 0, 1, 0, -7}));
}

// The label where it is the largest logit, else the first of the largest others; NaN is preferred.
TEST(Classes, ThatSamplesAreTakenFor) {
  const std::vector<float> row = {1, 5, -2, 5, 3};
  std::vector<float> z;
  for (int i = 0; i < 5; ++i) z.insert(z.end(), row.begin(), row.end());
  std::vector<int32_t> classes(6, -7);
  const auto loss = make_loss("cross-entropy", 5);
  loss->evaluate(labelled({0, 1, 2, 3, 4}), z.data(), {.classes = classes.data()});
  EXPECT_EQ(classes, (std::vector<int32_t>{1, 1, 1, 1, 1, -7}));
  std::vector<float> broken = {kNan, 9, kNan, 2, 3, 4, 4, 4, 4, 4, 8, 1, 1, 1, 1};
  loss->evaluate(labelled({0, 3, 1}), broken.data(), {.classes = classes.data()});
  EXPECT_EQ(std::vector<int32_t>(classes.begin(), classes.begin() + 3),
            (std::vector<int32_t>{2, 0, 0}));
  std::vector<float> one = {2, 2, -2, -2, 0, 0};
  make_loss("binary-logistic", 2)
      ->evaluate(labelled({1, 0, 1, 0, 1, 0}), one.data(), {.classes = classes.data()});
  EXPECT_EQ(classes, (std::vector<int32_t>{1, 1, 0, 0, 0, 0}));
}

TEST(CrossEntropy, MatchesLongDouble) {
  RandomStream stream(3, Purpose::kData);
  for (const std::size_t outputs : {2u, 3u, 4u, 5u, 10u, 62u, 1001u}) {
    for (const std::size_t rows : {1u, 7u, 64u, 65u, 200u}) {
      for (const double spread : {0.01, 3.0, 100.0}) {
        std::vector<float> z(rows * outputs);
        for (float& v : z) v = static_cast<float>(spread * stream.normal());
        std::vector<int32_t> labels(rows);
        for (int32_t& y : labels) {
          y = static_cast<int32_t>(stream.below(static_cast<int64_t>(outputs)));
        }
        const Softmax expected = slow_cross_entropy(z, labels, outputs);
        const double loss = make_loss("cross-entropy", static_cast<int64_t>(outputs))
                                ->loss_and_delta(labelled(labels), z.data());
        EXPECT_NEAR(loss, expected.loss, 1e-6 * expected.loss + 1e-7 * static_cast<double>(rows));
        for (std::size_t i = 0; i < z.size(); ++i) {
          ASSERT_NEAR(z[i], expected.deltas[i], 1e-6 / static_cast<double>(rows));
        }
      }
    }
  }
}

TEST(CrossEntropy, HasTheSameBitsByAllKernels) {
  RandomStream random(3, Purpose::kData);
  for (const int64_t rows : {int64_t{1}, int64_t{3}, int64_t{10}, kLossRows}) {
    for (int64_t outputs = 2; outputs < 40; ++outputs) {
      std::vector<float> logits;
      std::vector<int32_t> labels;
      for (int64_t i = 0; i < rows * outputs; ++i) {
        logits.push_back(static_cast<float>(20 * random.normal()));
      }
      for (int64_t r = 0; r < rows; ++r) {
        labels.push_back(static_cast<int32_t>(random.below(outputs)));
      }
      auto expected = logits;
      const double loss =
          cross_entropies().back()(labels.data(), rows, outputs, 0.1F, expected.data());
      for (const CrossEntropies kernel : cross_entropies()) {
        auto found = logits;
        EXPECT_EQ(kernel(labels.data(), rows, outputs, 0.1F, found.data()), loss);
        EXPECT_EQ(found, expected);
      }
    }
  }
}

TEST(CrossEntropy, StandsHugeLogits) {
  std::vector<float> z = {1e30f, -1e30f, 0.0f, 3e38f, -3e38f, -kInf};
  const std::vector<int32_t> labels = {0, 0};
  EXPECT_EQ(make_loss("cross-entropy", 3)->loss_and_delta(labelled(labels), z.data()), 0.0);
  for (const float delta : z) EXPECT_NEAR(delta, 0.0f, 1e-30f);
}

TEST(CrossEntropy, PassesNanOn) {
  for (const float bad : {kNan, kInf}) {
    for (std::size_t at = 0; at < 3; ++at) {
      std::vector<float> z = {0.0f, 1.0f, 2.0f};
      z[at] = bad;
      const std::vector<int32_t> labels = {1};
      EXPECT_TRUE(
          std::isnan(make_loss("cross-entropy", 3)->loss_and_delta(labelled(labels), z.data())));
      EXPECT_TRUE(std::isnan(z[at]));
    }
  }
}

TEST(BinaryLogistic, MatchesClosedForm) {
  for (const float value : {-200.0f, -20.0f, -1.5f, -1e-6f, 0.0f, 1e-6f, 0.7f, 20.0f, 200.0f}) {
    for (const int32_t label : {0, 1}) {
      float z = value;
      const std::vector<int32_t> labels = {label};
      const double loss = make_loss("binary-logistic", 2)->loss_and_delta(labelled(labels), &z);
      const double margin = (label == 1 ? 1.0 : -1.0) * static_cast<double>(value);
      const double expected =
          margin > 0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
      EXPECT_NEAR(loss, expected, 1e-7 * std::max(1.0, expected));
      EXPECT_NEAR(z, 1 / (1 + std::exp(-static_cast<double>(value))) - label, 1e-7);
    }
  }
  float z = kNan;
  const std::vector<int32_t> labels = {1};
  EXPECT_TRUE(std::isnan(make_loss("binary-logistic", 2)->loss_and_delta(labelled(labels), &z)));
}

TEST(SquaredError, MatchesClosedForm) {
  std::vector<float> z = {1.0f, -2.0f};
  const std::vector<float> targets = {3.0f, 4.0f};
  const Batch batch{nullptr, nullptr, targets.data(), 2};
  EXPECT_EQ(make_loss("squared-error", 0)->loss_and_delta(batch, z.data()), 2.0 + 18.0);
  EXPECT_EQ(z, (std::vector<float>{-1.0f, -3.0f}));
}

// A loss that adds up to the batch's; the logits stay.
TEST(SampleLosses, AreThoseOfBatchesOfOne) {
  const std::vector<int32_t> labels{2, 0, -1, 1, 1, -1};
  const std::vector<float> targets{1, 0, 0.5F, 1, 1, 0};
  const std::vector<float> logits{0.3F, -1, 2, 0.1F, 0, 5, 1, 1, -2, 4, -3, 0.5F, 0, 0, 1, 2, 2, 2};
  struct Case {
    const char* name;
    LabelForm labels;
    Batch batch;
  };
  const std::vector<int32_t> classes{2, 0, 1, 1, 0, 2};
  const std::vector<Case> cases{
      {"cross-entropy", LabelForm(3), {.labels = classes.data(), .rows = 6}},
      {"cross-entropy", LabelForm(3, 3), {.labels = labels.data(), .rows = 2}},
      {"squared-error", LabelForm(0, 2), {.targets = targets.data(), .rows = 3}}};
  for (const Case& c : cases) {
    const LossPtr loss = make_loss(c.name, c.labels);
    std::vector<float> z = logits;
    std::vector<double> found(static_cast<std::size_t>(c.batch.rows));
    loss->find_sample_losses(c.batch, z.data(), found.data());
    EXPECT_EQ(z, logits);
    for (std::size_t r = 0; r < found.size(); ++r) EXPECT_GT(found[r], 0) << c.name;
    EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0),
                loss->loss_and_delta(c.batch, z.data()), 1e-6)
        << c.name;
  }
}

TEST(Evaluation, TakesTheFirstOfEqualLogits) {
  std::vector<float> z = {1, 5, 5, 1, 1, 1, 0, 2, 9};
  const std::vector<int32_t> labels = {1, 0, 2};
  const EvaluationSums sums = make_loss("cross-entropy", 3)->evaluate(labelled(labels), z.data());
  EXPECT_EQ(sums.correct, 3);
  EXPECT_EQ(sums.samples, 3);
}

TEST(Evaluation, BinaryClassOneNeedsAPositiveLogit) {
  std::vector<float> z = {0.0f, 0.0f, 1.0f, -1.0f};
  const std::vector<int32_t> labels = {0, 0, 1, 1};
  const EvaluationSums sums = make_loss("binary-logistic", 2)->evaluate(labelled(labels), z.data());
  EXPECT_EQ(sums.correct, 3);
}

}  // namespace
}  // namespace hanse
