// Metrics of probabilities, by hand and against slow counts of their definitions.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "class_scores.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/evaluation/softmax.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Labels = std::vector<int32_t>;
using Numbers = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double value(ScoreSum sum) { return sum.part / sum.whole; }

float logit(double p) { return static_cast<float>(std::log(p / (1 - p))); }

// Three classes with these probabilities: their logarithms are logits.
Numbers logits(const std::vector<double>& p) {
  Numbers z;
  for (const double share : p) z.push_back(static_cast<float>(std::log(share)));
  return z;
}

TEST(ClassScores, BrierByHand) {
  const Numbers z{logit(0.9), logit(0.2), logit(0.5)};
  EXPECT_NEAR(value(brier({Labels{1, 0, 1}, z, 2})), (0.01 + 0.04 + 0.25) / 3, 1e-7);
  const Numbers three = logits({0.5, 0.3, 0.2, 0.1, 0.1, 0.8});
  EXPECT_NEAR(value(brier({Labels{0, 1}, three, 3})), (0.25 + 0.09 + 0.04 + 0.01 + 0.81 + 0.64) / 2,
              1e-6);
  EXPECT_TRUE(std::isnan(value(brier({{}, {}, 2}))));
}

// Confidences .9 .9 and .8 (wrong) share no bin of 1/15 with .6: (.8667, .9333], (.7333, .8] and
// (.5333, .6]; .6 itself lies in the lower one.
TEST(ClassScores, CalibrationErrorByHand) {
  const Numbers z{logit(0.9), logit(0.1), logit(0.79), logit(0.5999)};
  const Labels labels{1, 1, 0, 1};
  const double expected = (std::abs(1 - 1.8) + std::abs(0 - 0.79) + std::abs(1 - 0.5999)) / 4;
  EXPECT_NEAR(value(calibration_error({labels, z, 2})), expected, 1e-6);
  const Numbers three = logits({0.62, 0.28, 0.1, 0.18, 0.64, 0.18});  // both in (.6, .6667]
  EXPECT_NEAR(value(calibration_error({Labels{0, 0}, three, 3})), std::abs(1 - 1.26) / 2, 1e-6);
  EXPECT_TRUE(std::isnan(value(calibration_error({Labels{0, 1}, Numbers{1, kNan}, 2}))));
  EXPECT_EQ(value(calibration_error({Labels{0}, Numbers{0}, 2})), 0.5);  // the first of equal ones
  // 1/3, the end of a bin, lies in it with 0.3.
  Numbers four = logits({0.3, 0.25, 0.25, 0.2});
  four.insert(four.end(), {0, 0, 0, -1e4F});
  EXPECT_NEAR(value(calibration_error({Labels{1, 0}, four, 4})), std::abs(1 - 1.0 / 3 - 0.3) / 2,
              1e-6);
}

TEST(ClassScores, AveragePrecisionByHand) {
  // From the highest on: 1, 0, {1, 0} tied, 1: P 1/1 at R 1/3, 2/4 at 2/3, 3/5 at 1.
  const Numbers z{4, 3, 2, 2, 1};
  const Labels labels{1, 0, 1, 0, 1};
  EXPECT_DOUBLE_EQ(value(average_precision_of_classes({labels, z, 2})), (1 + 0.5 + 0.6) / 3);
  EXPECT_TRUE(std::isnan(value(average_precision_of_classes({Labels{0, 0}, Numbers{1, 2}, 2}))));
  EXPECT_TRUE(std::isnan(value(average_precision_of_classes({Labels{1, 0}, Numbers{kNan, 2}, 2}))));
  EXPECT_EQ(value(average_precision_of_classes({Labels{1}, Numbers{-90}, 2})), 1);
  EXPECT_EQ(value(average_precision_of_classes({Labels{1, 1, 0}, Numbers{2, 2, 1}, 2})), 1);
  // Scores whose probabilities are the same number: the logits tell them apart.
  EXPECT_EQ(value(average_precision_of_classes({Labels{1, 0}, Numbers{60, 50}, 2})), 1);
}

// One class against the rest, by counting pairs.
TEST(ClassScores, AurocOfSeveralClassesAgainstCounts) {
  constexpr int64_t kSamples = 50, kClasses = 4;
  RandomStream stream(5, Purpose::kData);
  Numbers z;
  Labels labels;
  for (int64_t i = 0; i < kSamples; ++i) {
    labels.push_back(static_cast<int32_t>(stream.below(3)));  // nobody has class 3
    const auto level = static_cast<float>(stream.below(3));   // alike in a sample's scores: ties
    for (int64_t k = 0; k < kClasses; ++k) z.push_back(level * static_cast<float>(k % 3) / 2);
  }
  const ClassScores samples{labels, z, kClasses};
  std::vector<double> p(kClasses);
  double macro = 0, weighted = 0;
  for (int32_t k = 0; k < 3; ++k) {
    double wins = 0, pairs = 0, own = 0;
    for (int64_t a = 0; a < kSamples; ++a) {
      if (labels[to_index(a)] != k) continue;
      ++own;
      samples.probabilities(a, p);
      const double positive = p[to_index(k)];
      for (int64_t b = 0; b < kSamples; ++b) {
        if (labels[to_index(b)] == k) continue;
        samples.probabilities(b, p);
        wins += positive > p[to_index(k)] ? 1 : positive == p[to_index(k)] ? 0.5 : 0;
        ++pairs;
      }
    }
    macro += wins / pairs / 3;
    weighted += wins / pairs * own / kSamples;
  }
  EXPECT_NEAR(value(macro_auroc(samples)), macro, 1e-14);
  EXPECT_NEAR(value(prevalence_auroc(samples)), weighted, 1e-14);
  EXPECT_GT(std::abs(macro - weighted), 1e-4);
}

TEST(ClassScores, AurocOfSeveralClassesThatIsNotDefined) {
  const Numbers z{1, 2, 3, 3, 2, 1};
  EXPECT_TRUE(std::isnan(value(macro_auroc({Labels{2, 2}, z, 3}))));  // one class alone
  EXPECT_TRUE(std::isnan(value(macro_auroc({{}, {}, 3}))));
  Numbers broken = z;
  broken[4] = kNan;
  EXPECT_TRUE(std::isnan(value(macro_auroc({Labels{0, 2}, broken, 3}))));
  EXPECT_EQ(value(macro_auroc({Labels{2, 0}, z, 3})), 1);
  EXPECT_EQ(value(macro_auroc({Labels{0, 2}, z, 3})), 0);
}

TEST(ClassScores, LargeLogitsOverflowNothing) {
  std::vector<double> p(3);
  softmax(Numbers{1e4F, 1e4F, -1e4F}, p);
  EXPECT_EQ(p, (std::vector<double>{0.5, 0.5, 0}));
  softmax(Numbers{1, kNan, 2}, p);
  EXPECT_TRUE(std::isnan(p[0]) && std::isnan(p[2]));
  EXPECT_EQ(logistic(-1e4), 0);
  EXPECT_EQ(logistic(1e4), 1);
}

TEST(ClassScores, WhatComesOnItsOwnMayBeAskedFor) {
  const auto check = [](const std::string& names, const LabelForm& labels) {
    check_asked(asked_metrics(names), labels);
    return named_scores(asked_metrics(names), {}).size();
  };
  EXPECT_EQ(check("auroc,accuracy,loss", 2), 0U);  // their columns are there
  EXPECT_EQ(check("accuracy,brier,ece,auprc,auroc-macro,auroc-prevalence", 3), 5U);
  const auto refuse = [&](const std::string& name, const LabelForm& labels,
                          const std::string& part) {
    expect_error<InvalidArgument>([&] { check(name, labels); }, {"evaluate.metrics", part});
  };
  refuse("auroc", 3, "auroc-macro");
  refuse("auroc", LabelForm(2, 5), "a position");
  refuse("accuracy", LabelForm(0, 1), "regression");
  refuse("accuracy", LabelForm(0, 4, true), "micro-f1");
  refuse("auroc-macro", 2, "3 classes or more");
  for (const char* name : {"brier", "ece", "auprc"}) {
    refuse(name, LabelForm(0, 1), "regression");
    refuse(name, LabelForm(0, 4, true), "one class");
    refuse(name, LabelForm(4, 5), "one class a sample");
  }
  expect_error<InvalidArgument>([] { asked_metrics("aurocs"); }, {"did you mean 'auroc'"});
  EXPECT_TRUE(is_small_better_score("brier_worst") && is_small_better_score("common_ece"));
  EXPECT_FALSE(is_small_better_score("recency") || is_small_better_score("auprc"));
}

}  // namespace
}  // namespace hanse
