#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "evaluation/evaluations.hpp"
#include "hanse/base/random.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Scores = std::vector<float>;
using Labels = std::vector<int32_t>;

// The share of pairs (one of class 1, one of class 0) in the right order, equal ones half.
double slow_area(std::span<const float> scores, std::span<const int32_t> labels) {
  double right = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      pairs += 1;
      right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  return right / pairs;
}

TEST(AreaUnderRoc, KnownValues) {
  EXPECT_EQ(area_under_roc(Scores{1, 2, 3, 4}, Labels{0, 0, 1, 1}), 1);
  EXPECT_EQ(area_under_roc(Scores{1, 2, 3, 4}, Labels{1, 1, 0, 0}), 0);
  EXPECT_EQ(area_under_roc(Scores{5, 5, 5}, Labels{1, 0, 1}), 0.5);
  EXPECT_EQ(area_under_roc(Scores{3, 1, 2, 2}, Labels{1, 0, 1, 0}), 0.875);
  EXPECT_EQ(area_under_roc(Scores{0.0F, -0.0F}, Labels{1, 0}), 0.5);  // equal, though other bits
}

TEST(AreaUnderRoc, AgreesWithThePairs) {
  RandomStream stream(3, Purpose::kData);
  for (const std::size_t n : {2, 3, 7, 64, 257}) {
    for (const int64_t values : {1, 2, 5, 1000000}) {  // few values: many ties
      Scores scores;
      Labels labels;
      for (std::size_t i = 0; i < n; ++i) {
        scores.push_back(static_cast<float>(stream.below(values)) - 2.5F);
        labels.push_back(i < 2 ? static_cast<int32_t>(i) : static_cast<int32_t>(stream.below(2)));
      }
      EXPECT_DOUBLE_EQ(area_under_roc(scores, labels), slow_area(scores, labels))
          << n << " samples, " << values << " values";
    }
  }
}

TEST(AreaUnderRoc, IsUnknownWithoutBothClassesOrWithNaN) {
  EXPECT_TRUE(std::isnan(area_under_roc(Scores{}, Labels{})));
  EXPECT_TRUE(std::isnan(area_under_roc(Scores{1}, Labels{1})));
  EXPECT_TRUE(std::isnan(area_under_roc(Scores{1, 2}, Labels{0, 0})));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(area_under_roc(Scores{1, nan}, Labels{0, 1})));
}

// Clients with more test samples than one batch of the model, for both losses with two classes.
TEST(EvaluateClients, AreaOverEachClientsTestSamples) {
  const DataOptions data{.kind = "random", .test_fraction = 0.6, .shape = {5}, .classes = 2};
  const FederationOptions options{.clients = 3, .partition = "iid", .samples = 700};
  for (const std::string loss : {"cross-entropy", "binary-logistic"}) {
    run_threads(2, [&](Communicator& comm) {
      const auto federation = Federation::load(data, options, 1, comm);
      const auto model = make_model({.kind = "linear", .loss = loss}, {5}, 2);
      std::vector<float> row(static_cast<std::size_t>(model->n_params()));
      RandomStream stream(1, Purpose::kInitialize);
      model->initialize(row, stream);
      RowEvaluator evaluator(federation, *model);
      const auto clients = evaluate_all(comm, federation, evaluator.at(row));
      for (std::size_t c = 0; c < clients.size(); ++c) {  // none but on rank 0
        const auto test = federation.test(static_cast<int64_t>(c));
        const auto n = static_cast<std::size_t>(test.size());
        ASSERT_GT(test.size(), model->evaluation_rows());
        std::vector<float> features(5 * n);
        federation.copy(test, features.data());
        const auto labels = federation.labels().subspan(static_cast<std::size_t>(test.begin), n);
        Scores scores(n);
        model->evaluate(row, {features.data(), labels.data(), nullptr, test.size()},
                        {.scores = scores.data()});
        Scores found(n);
        evaluator.range(test, {.scores = found.data()});
        for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(found[i], scores[i], 1e-5) << loss;
        EXPECT_DOUBLE_EQ(clients[c].auroc, slow_area(found, labels)) << loss;
      }
    });
  }
}

TEST(Summarize, MeanAreaOfTheClientsThatHaveOne) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto summary = [](const std::vector<double>& areas, int64_t classes) {
    std::vector<ClientEvaluation> clients;
    for (const double area : areas) {
      clients.push_back(
          {.samples = 1 + 9 * area, .accuracy = 0.5, .train_samples = 1, .auroc = area});
      if (std::isnan(area)) clients.back().samples = 1;
    }
    const Metrics metrics = summarize(EvaluationTable(clients), {}, classes);
    return std::map<std::string, double>(metrics.begin(), metrics.end());
  };
  EXPECT_DOUBLE_EQ(summary({0.25, nan, 0.875, 0.75}, 2).at("auroc"), 0.625);
  EXPECT_TRUE(std::isnan(summary({nan, nan}, 2).at("auroc")));
  EXPECT_EQ(summary({nan, nan}, 3).count("auroc"), 0U);
  EXPECT_EQ(summary({nan}, 0).count("auroc"), 0U);
}

}  // namespace
}  // namespace hanse
