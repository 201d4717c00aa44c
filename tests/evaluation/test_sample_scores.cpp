// Metrics that are sums over samples, against slow counts of their definitions.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/evaluation/asked_metrics.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(NumbersOfTables, HaveNineDigits) {
  EXPECT_EQ(number_or_nothing(std::nan("")), "");
  std::vector<double> values{0.0,
                             -0.0,
                             1,
                             -7,
                             0.5,
                             1e9,
                             999999999,
                             999999999.5,
                             123456788.5,
                             1e300,
                             std::numeric_limits<double>::infinity()};
  RandomStream stream(3, Purpose::kInitialize);
  for (int i = 0; i < 1000; ++i) {
    values.push_back(std::exp(40 * stream.normal()));
    values.push_back(std::floor(1e10 * stream.uniform()) / 2);
  }
  for (const double value : values) {
    char text[64];
    std::snprintf(text, sizeof text, "%.9g", value);
    EXPECT_EQ(number_or_nothing(value), text);
  }
}

TEST(NumbersOfTables, HaveAllDigitsOfMicrosecondsAndBytes) {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
           {75003.04192, "75003.04192"},
           {12345678901, "12345678901"},
           {-4096.25, "-4096.25"},
           {9007199254.740990, "9007199254.74099"},
           {1234.5678912, "1234.56789"},  // no whole microseconds
           {0.000001, "1e-06"},
           {0, "0"},
           {1e300, "1e+300"},
           {std::nan(""), ""}}) {
    EXPECT_EQ(counted_or_nothing(value), text);
  }
}

TEST(SampleScores, AskedOnesComeOnceInTheirOrder) {
  const AskedMetrics asked = asked_metrics("f1, recall@5,mrr,recall@10, mrr");
  EXPECT_TRUE(asked.f1);
  std::vector<std::string> names;
  for (const auto& [name, value] : named_scores(asked, {})) {
    names.push_back(name);
    EXPECT_EQ(name != "f1", std::isnan(value) && name != "f1") << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"f1", "recall_at_5", "mrr", "recall_at_10"}));
  for (const std::string wrong : {"recall", "recall@", "recall@0", "recall@x", "recall@-1",
                                  "recall@99999999999999999999", "mrr@5", "recall@5@6"}) {
    expect_error<InvalidArgument>([&] { asked_metrics(wrong); }, {"evaluate.metrics", wrong});
  }
  expect_error<InvalidArgument>([] { asked_metrics("recal@5"); }, {"recall@k"});
  expect_error<InvalidArgument>(
      [] { asked_metrics("ndcg@1,ndcg@2,ndcg@3,ndcg@4,ndcg@5,ndcg@6,ndcg@7,ndcg@8,ndcg@9"); },
      {"more than 8"});
}

TEST(SampleScores, WhatDataHave) {
  const auto check = [](const std::string& names, const LabelForm& labels) {
    check_asked(asked_metrics(names), labels);
  };
  const LabelForm several(0, 6, true), numbers(0, 3), one(6), sequence(6, 9);
  check("recall@5,hit-rate@5,ndcg@6,mrr,average-precision,micro-f1", several);
  check("hit-rate@5,ndcg@6,mrr,perplexity,top5", one);
  check("hit-rate@5,mrr,perplexity,classes", sequence);
  check("mse,mae", numbers);
  const auto refuse = [&](const std::string& name, const LabelForm& labels,
                          const std::string& part) {
    expect_error<InvalidArgument>([&] { check(name, labels); }, {"evaluate.metrics", part});
  };
  refuse("recall@6", several, "6 of 6 classes");
  refuse("hit-rate@6", one, "6 of 6 classes");
  refuse("ndcg@7", one, "7 of 6 classes");
  refuse("recall@5", one, "several labels");
  refuse("perplexity", several, "one class");
  refuse("mse", one, "regression");
  refuse("mrr", numbers, "classes");
  refuse("top5", several, "several labels");
  refuse("classes", numbers, "regression");
  EXPECT_TRUE(is_small_better_score("perplexity_worst10") && is_small_better_score("common_mse"));
  EXPECT_FALSE(is_small_better_score("recall_at_5") || is_small_better_score("mrr"));
}

// Samples in the order of a file, each of its own value, with these targets.
class ScoresOnFile : public testing::Test {
 protected:
  Federation load(const std::vector<std::vector<float>>& targets, const std::string& task) {
    std::string text = "x", columns;
    for (std::size_t k = 0; k < targets[0].size(); ++k) {
      columns += (k > 0 ? "," : "") + ("t" + std::to_string(k));
    }
    text += "," + columns + "\n";
    for (std::size_t i = 0; i < targets.size(); ++i) {
      text += std::to_string(i);
      for (const float target : targets[i]) text += "," + std::to_string(target);
      text += "\n";
    }
    std::ofstream(folder_ / "table.csv") << text;
    const DataOptions data{.kind = "csv",
                           .path = folder_ / "table.csv",
                           .test_fraction = 0,
                           .label_column = columns,
                           .task = task};
    return Federation::load(data, {.clients = 1, .partition = "iid"}, 1, *comm_);
  }

  // What the names are of the samples, for each of which `outputs` [number][value] is predicted.
  std::map<std::string, double> scores(const std::string& names, const Federation& federation,
                                       const std::vector<std::vector<float>>& outputs) {
    const AskedMetrics asked = asked_metrics(names);
    const SampleRange all{0, federation.samples()};
    ScoredSamples found(asked, federation.label_form(), all.size(), true);
    std::vector<float> numbers(outputs.size());
    federation.copy(all, numbers.data());
    found.outputs.clear();
    for (const float number : numbers) {
      const auto& own = outputs[static_cast<std::size_t>(number)];
      found.outputs.insert(found.outputs.end(), own.begin(), own.end());
    }
    const auto sums = sum_scores(asked.scores, federation, all, found, 0);
    std::map<std::string, double> values;
    for (const auto& [name, value] : named_scores(asked, asked_scores(asked, {{}, {}, 0}, sums))) {
      values[name] = value;
    }
    return values;
  }

  ScratchFolder folder_;
  std::unique_ptr<Communicator> comm_ = make_single_communicator();
};

TEST_F(ScoresOnFile, OfSeveralLabels) {
  const auto federation =
      load({{1, 0, 1, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {0, 0, 1, 1}}, "classification");
  // Orders of the classes: 1 0 3 2, then 1 0 2 3 (the first of equals), any, 0 3 (NaN first) ...
  const auto found = scores("recall@2,hit-rate@1,ndcg@3,mrr,average-precision,micro-f1", federation,
                            {{0.5F, 2, -3, -1}, {0, 0.25F, 0, 0}, {9, 8, -7, 1}, {kNan, 1, 2, 3}});
  const double log3 = std::log2(3.0);
  EXPECT_DOUBLE_EQ(found.at("recall_at_2"), (0.5 + 1 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(found.at("hit_rate_at_1"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(found.at("mrr"), (1.0 / 2 + 1 + 1.0 / 2) / 3);
  EXPECT_DOUBLE_EQ(found.at("average_precision"),
                   ((1.0 / 2 + 2.0 / 4) / 2 + 1 + (1.0 / 2 + 2.0 / 3) / 2) / 3);
  const double best = 1 + 1 / log3;
  EXPECT_DOUBLE_EQ(found.at("ndcg_at_3"), (1 / log3 / best + 1 + (1 / log3 + 0.5) / best) / 3);
  // Taken: {0, 1}, {1}, {0, 1, 3}, {1, 2, 3}; right 1 + 1 + 0 + 2 of 5 labels.
  EXPECT_DOUBLE_EQ(found.at("micro_f1"), 2 * 4.0 / (9 + 5));
  const auto none =
      scores("recall@2,micro-f1", load({{0, 0}, {0, 0}}, "classification"), {{-1, -2}, {-1, -1}});
  EXPECT_TRUE(std::isnan(none.at("recall_at_2")) && std::isnan(none.at("micro_f1")));
}

TEST_F(ScoresOnFile, OfSeveralLabelsAgainstSlowCounts) {
  constexpr int64_t kSamples = 60, kClasses = 9;
  RandomStream stream(3, Purpose::kData);
  std::vector<std::vector<float>> targets(kSamples), outputs(kSamples);
  for (std::size_t i = 0; i < kSamples; ++i) {
    for (int64_t k = 0; k < kClasses; ++k) {
      targets[i].push_back(stream.below(4) == 0 ? 1.0F : 0.0F);
      outputs[i].push_back(static_cast<float>(stream.below(6)) - 2);  // ties
    }
  }
  double recall = 0, precision = 0, samples = 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    std::vector<std::size_t> order, own;
    for (int level = 6; level >= -6; --level) {
      for (std::size_t k = 0; k < kClasses; ++k) {
        if (outputs[i][k] == static_cast<float>(level)) order.push_back(k);
        if (level == 0 && targets[i][k] == 1) own.push_back(k);
      }
    }
    if (own.empty()) continue;
    double hits = 0, sum = 0;
    for (std::size_t place = 0; place < order.size(); ++place) {
      if (targets[i][order[place]] != 1) continue;
      sum += ++hits / static_cast<double>(place + 1);
      recall += place < 3 ? 1 / static_cast<double>(own.size()) : 0;
    }
    precision += sum / static_cast<double>(own.size());
    ++samples;
  }
  ASSERT_LT(samples, kSamples);
  const auto found = scores("recall@3,average-precision", load(targets, "classification"), outputs);
  EXPECT_NEAR(found.at("recall_at_3"), recall / samples, 1e-12);
  EXPECT_NEAR(found.at("average_precision"), precision / samples, 1e-12);
}

TEST_F(ScoresOnFile, OfSeveralOutputs) {
  const auto federation = load({{1, 2}, {-1, 0.5F}}, "regression");
  const auto found = scores("mse,mae", federation, {{-1, 2}, {-1, 1}});
  EXPECT_DOUBLE_EQ(found.at("mse"), (4 + 0.25) / 4);
  EXPECT_DOUBLE_EQ(found.at("mae"), (2 + 0.5) / 4);
}

// One class a sample or position: from the ranks, positions without a label left out.
TEST(SampleScores, OfOneClass) {
  const auto comm = make_single_communicator();
  const DataOptions data{.kind = "random", .test_fraction = 0, .shape = {2}, .classes = 8};
  const auto federation = Federation::load(data, {.clients = 1, .samples = 5}, 1, *comm);
  const AskedMetrics asked = asked_metrics("hit-rate@3,ndcg@4,mrr,perplexity");
  ScoredSamples found(asked, 8, 5, false);
  found.ranks = {0, 2, -1, 3, 7};
  const auto sums = sum_scores(asked.scores, federation, {0, 5}, found, 10);
  const auto named = named_scores(asked, asked_scores(asked, {{}, {}, 8}, sums));
  EXPECT_DOUBLE_EQ(named[0].second, 2.0 / 4);
  EXPECT_DOUBLE_EQ(named[1].second, (1 + 1 / 2.0 + 1 / std::log2(5.0)) / 4);
  EXPECT_DOUBLE_EQ(named[2].second, (1 + 1.0 / 3 + 1.0 / 4 + 1.0 / 8) / 4);
  EXPECT_DOUBLE_EQ(named[3].second, std::exp(2.0));
}

// The largest perplexity is the worst.
TEST(SampleScores, TheWorstOfWhatIsBetterSmall) {
  std::vector<ClientEvaluation> clients;
  for (const double value : {3.0, 1.0, 2.0}) {
    clients.push_back({.samples = 1, .train_samples = 1});
    clients.back().asked.more[0] = value;
  }
  for (const auto& [names, worst] : {std::pair{"perplexity", 3.0}, {"mrr", 1.0}}) {
    const auto found = summarize(EvaluationTable(clients), {}, 4, asked_metrics(names));
    const std::map<std::string, double> metrics(found.begin(), found.end());
    EXPECT_EQ(metrics.at(std::string(names) + "_worst"), worst);
    EXPECT_EQ(metrics.at(std::string(names) + "_worst10"), worst);
    EXPECT_EQ(metrics.at(std::string(names) + "_best"), 4 - worst);
  }
}

}  // namespace
}  // namespace hanse
