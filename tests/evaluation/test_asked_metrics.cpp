// Metrics that a job asks for, against slow counts of their definitions.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "evaluation/evaluations.hpp"
#include "hanse/base/random.hpp"
#include "hanse/comm/communicator.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Labels = std::vector<int32_t>;
constexpr AskedMetrics kAll{.top5 = true, .balanced_accuracy = true, .f1 = true, .classes = true};

TEST(AskedMetrics, UnknownNamesAreRefused) {
  EXPECT_FALSE(asked_metrics("").any());
  const AskedMetrics two = asked_metrics("classes, top5");
  EXPECT_TRUE(two.classes && two.top5);
  EXPECT_FALSE(two.f1 || two.balanced_accuracy);
  EXPECT_TRUE(asked_metrics("f1").f1 && asked_metrics("balanced-accuracy").balanced_accuracy);
  expect_error<InvalidArgument>([] { asked_metrics("top5,balanced"); },
                                {"'balanced'", "evaluate.metrics", "balanced-accuracy"});
}

TEST(AskedMetrics, WhatDataHave) {
  check_asked({.balanced_accuracy = true, .f1 = true, .classes = true}, 2);
  check_asked({.top5 = true}, 6);
  check_asked({}, 0);
  expect_error<InvalidArgument>([] { check_asked({.classes = true}, 0); }, {"regression"});
  expect_error<InvalidArgument>([] { check_asked({.f1 = true}, 3); }, {"two classes", "have 3"});
  check_asked({.confusion = true}, 1000);
  expect_error<InvalidArgument>([] { check_asked({.confusion = true}, 1001); }, {"1001 x 1001"});
  expect_error<InvalidArgument>([] { check_asked({.top5 = true}, 5); }, {"five of 5 classes"});
}

TEST(AskedMetrics, KnownValues) {
  // Class 0: 2 of 3 right; class 1: 1 of 4 right.
  const Labels labels{0, 0, 0, 1, 1, 1, 1}, ranks{0, 1, 0, 0, 1, 1, 1};
  const AskedScores scores = asked_scores(kAll, {labels, ranks, 2});
  EXPECT_DOUBLE_EQ(scores.balanced_accuracy, (2.0 / 3 + 1.0 / 4) / 2);
  EXPECT_DOUBLE_EQ(scores.f1, 2.0 / (2 + 1 + 3));  // TP 1, FP 1, FN 3
  EXPECT_EQ(scores.top5, 1);
  // Classes that the client does not have do not count.
  EXPECT_DOUBLE_EQ(asked_scores(kAll, {Labels{4, 4, 2}, Labels{0, 7, 5}, 9}).balanced_accuracy,
                   0.25);
  EXPECT_DOUBLE_EQ(asked_scores(kAll, {Labels{4, 4, 2}, Labels{4, 7, 5}, 9}).top5, 1.0 / 3);
  EXPECT_TRUE(std::isnan(asked_scores(kAll, {Labels{0, 0}, Labels{0, 0}, 2}).f1));
  EXPECT_EQ(asked_scores(kAll, {Labels{0, 0}, Labels{0, 1}, 2}).f1, 0);
  EXPECT_TRUE(std::isnan(asked_scores(kAll, {Labels{}, Labels{}, 2}).balanced_accuracy));
  const AskedScores none = asked_scores({}, {labels, ranks, 2});
  EXPECT_TRUE(std::isnan(none.f1) && std::isnan(none.top5));
}

TEST(Summarize, TheSpreadOfThoseThatHaveOne) {
  const double nan = std::nan("");
  std::vector<ClientEvaluation> clients;
  for (const double value : {0.25, nan, 1.0, 0.5}) {
    clients.push_back({.samples = value == 0.5 ? 6.0 : 1.0,
                       .train_samples = 1,
                       .auroc = value,
                       .asked = {.f1 = value / 2}});
  }
  const auto of = [](const Metrics& found) {
    return std::map<std::string, double>(found.begin(), found.end());
  };
  const auto found = of(summarize(EvaluationTable(clients), {}, 2, {.f1 = true}));
  for (const auto& [name, factor] : {std::pair{std::string("auroc"), 1.0}, {"f1", 0.5}}) {
    EXPECT_DOUBLE_EQ(found.at(name), factor * 1.75 / 3);
    EXPECT_DOUBLE_EQ(found.at(name + "_weighted"), factor * 4.25 / 8);
    EXPECT_EQ(found.at(name + "_worst"), factor * 0.25);
    EXPECT_EQ(found.at(name + "_worst10"), factor * 0.25);
    EXPECT_EQ(found.at(name + "_best"), factor);
    EXPECT_EQ(found.at(name + "_gap"), factor * 0.75);
    EXPECT_DOUBLE_EQ(found.at(name + "_gini"), 2 * 0.75 / (3 * 1.75));
    EXPECT_EQ(found.at(name + "_left_out"), 1);
  }
  EXPECT_EQ(of(summarize(EvaluationTable(clients), {}, 3)).count("auroc_worst"), 0U);
  EXPECT_EQ(of(summarize(EvaluationTable(clients), {}, 2)).count("f1"), 0U);
  clients.resize(2);
  clients.erase(clients.begin());
  const auto nobody = of(summarize_tests("x_", EvaluationTable(clients), 2, {.f1 = true}));
  EXPECT_TRUE(std::isnan(nobody.at("x_f1_gini")) && std::isnan(nobody.at("x_auroc_best")));
  EXPECT_EQ(nobody.at("x_f1_left_out"), 1);
}

// Over ranks, against one pass over the samples of each client.
TEST(EvaluateClients, AskedMetricsOfEachClient) {
  const DataOptions data{.kind = "random", .test_fraction = 0.5, .shape = {6}, .classes = 9};
  const FederationOptions options{.clients = 5, .partition = "dirichlet", .samples = 60};
  std::string lines;
  for (int ranks = 1; ranks <= 3; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      const auto federation = Federation::load(data, options, 1, comm);
      const auto model = make_model({.kind = "linear"}, {6}, 9);
      std::vector<float> row(static_cast<std::size_t>(model->n_params()));
      RandomStream stream(1, Purpose::kInitialize);
      model->initialize(row, stream);
      RowEvaluator evaluator(federation, *model);
      evaluator.at(row);
      const EvaluationRequest request{
          .clients = evaluation_share(comm, federation, evaluated_clients(federation, {}, 0)),
          .asked = {.top5 = true, .balanced_accuracy = true, .classes = true, .confusion = true}};
      ClassCounts counts(9, request.asked);
      auto clients = evaluate(
          federation, request, [&](std::size_t) -> Evaluator& { return evaluator; }, &counts);
      clients.gather(comm, request.clients);
      const std::string text = class_lines(request.asked, counts, 7, comm);
      const std::string confused = confusion_text(request.asked, counts, comm);
      EXPECT_EQ(class_lines({}, counts, 7, comm), "");
      EXPECT_EQ(confusion_text({}, counts, comm), "");
      if (comm.rank() > 0) {
        EXPECT_EQ(text + confused, "");
        return;
      }
      ClassCounts expected(9);
      std::map<std::pair<int32_t, int32_t>, int64_t> taken;
      for (std::size_t c = 0; c < clients.size(); ++c) {
        const SampleRange test = federation.test(static_cast<int64_t>(c));
        Labels own(static_cast<std::size_t>(test.size()));
        Labels classes(own.size());
        evaluator.range(test, {.ranks = own.data(), .classes = classes.data()});
        const auto labels =
            federation.labels().subspan(static_cast<std::size_t>(test.begin), own.size());
        const RankCounts counted(labels, own, 9);
        const AskedScores scores = asked_scores(request.asked, counted);
        EXPECT_EQ(clients[c].asked.top5, scores.top5);
        EXPECT_EQ(clients[c].asked.balanced_accuracy, scores.balanced_accuracy);
        EXPECT_NEAR(static_cast<double>(std::count(own.begin(), own.end(), 0)),
                    clients[c].accuracy * clients[c].samples, 1e-9);
        expected.add(counted);
        for (std::size_t i = 0; i < own.size(); ++i) {
          EXPECT_EQ(own[i] == 0, labels[i] == classes[i]);
          ++taken[{labels[i], classes[i]}];
        }
      }
      std::string table = "label,predicted,samples\n";
      for (const auto& [pair, samples] : taken) {
        table += std::to_string(pair.first) + "," + std::to_string(pair.second) + "," +
                 std::to_string(samples) + "\n";
      }
      EXPECT_EQ(confused, table);
      if (ranks == 1) lines = text;
      EXPECT_EQ(text, lines);
      EXPECT_EQ(text, class_lines(request.asked, expected, 7, *make_single_communicator()));
      EXPECT_TRUE(text.starts_with("7,0,")) << text;
    });
  }
}

}  // namespace
}  // namespace hanse
