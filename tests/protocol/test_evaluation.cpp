#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "evaluation/evaluations.hpp"
#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

TEST(EvaluatedClients, ADrawOfEachGroupAndRound) {
  const auto comm = make_single_communicator();
  const Federation federation = Federation::load(
      {.kind = "random", .shape = {3}, .classes = 2},
      {.clients = 30, .samples = 9, .held_out = 8, .validation_clients = 2}, 1, *comm);
  std::vector<int64_t> all(30);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  EXPECT_EQ(evaluated_clients(federation, {}, 7), all);
  EXPECT_EQ(evaluated_clients(federation, {.clients = 20}, 7), all);
  std::vector<int> times(30);
  for (int64_t round = 0; round < 600; ++round) {
    const auto drawn = evaluated_clients(federation, {.clients = 4, .seed = 3}, round);
    EXPECT_EQ(drawn, evaluated_clients(federation, {.clients = 4, .seed = 3}, round));
    ASSERT_EQ(drawn.size(), 4U + 2U + 4U);
    EXPECT_TRUE(std::ranges::is_sorted(drawn));
    EXPECT_EQ(std::ranges::adjacent_find(drawn), drawn.end());
    EXPECT_LT(drawn[3], 20);
    EXPECT_EQ((std::vector<int64_t>{drawn[4], drawn[5]}), (std::vector<int64_t>{20, 21}));
    for (const int64_t client : drawn) ++times[static_cast<std::size_t>(client)];
  }
  for (int64_t c = 0; c < 30; ++c) {  // of 20, of 2, of 8
    const double share = c < 20 ? 0.2 : c < 22 ? 1 : 0.5;
    EXPECT_NEAR(times[static_cast<std::size_t>(c)], 600 * share, 60) << c;
  }
}

// One client's range in one batch.
EvaluationSums slow_evaluate(const Federation& federation, std::span<const float> row,
                             SampleRange range) {
  std::vector<float> x(static_cast<std::size_t>(3 * range.size()));
  federation.copy(range, x.data());
  return TinyModel().evaluate(row, {.features = x.data(),
                                    .labels = federation.labels().data() + range.begin,
                                    .rows = range.size()});
}

TEST(EvaluateClients, OneByOneInOrderOnRankZero) {
  std::vector<float> row(kParams);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = 0.3F - 0.02F * static_cast<float>(i);
  for (const double test_fraction : {0.0, 0.25}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        const Federation federation = tiny_federation(comm, test_fraction);
        TinyModel model;
        RowEvaluator evaluator(federation, model);
        const auto clients = evaluate_all(comm, federation, evaluator.at(row));
        if (comm.rank() != 0) {
          EXPECT_TRUE(clients.empty());
          return;
        }
        ASSERT_EQ(clients.size(), static_cast<std::size_t>(kClients));
        for (int64_t c = 0; c < kClients; ++c) {
          const auto train = slow_evaluate(federation, row, federation.train(c));
          const auto test = slow_evaluate(federation, row, federation.test(c));
          const auto& found = clients[static_cast<std::size_t>(c)];
          EXPECT_EQ(found.samples, static_cast<double>(test.samples));
          EXPECT_EQ(found.train_samples, static_cast<double>(train.samples));
          EXPECT_NEAR(found.loss, test.loss / found.samples, 1e-12);
          EXPECT_NEAR(found.accuracy, test.correct / found.samples, 1e-12);
          EXPECT_NEAR(found.train_loss, train.loss / found.train_samples, 1e-12);
          EXPECT_TRUE(test_fraction > 0 || found.loss == found.train_loss);
        }
      });
    }
  }
}

double average(const Numbers& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

double weighted(const Numbers& x, const Numbers& w) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * w[i];
  return sum / (average(w) * static_cast<double>(w.size()));
}

// sqrt(E[x^2] - E[x]^2)
double spread(const Numbers& x) {
  Numbers squares;
  for (const double v : x) squares.push_back(v * v);
  return std::sqrt(std::max(0.0, average(squares) - average(x) * average(x)));
}

// Mean of the max(1, floor(p n / 100)) lowest.
double lowest(Numbers x, std::size_t percent) {
  std::sort(x.begin(), x.end());
  x.resize(std::max<std::size_t>(1, percent * x.size() / 100));
  return average(x);
}

double highest(Numbers x, std::size_t percent) {
  for (double& v : x) v = -v;
  return -lowest(x, percent);
}

// Half the relative mean absolute difference over all pairs.
double pairwise_gini(const Numbers& x) {
  if (average(x) == 0) return 0;
  double sum = 0;
  for (const double a : x) {
    for (const double b : x) sum += std::abs(a - b);
  }
  const auto n = static_cast<double>(x.size());
  return sum / (2 * n * n * average(x));
}

// sum u ln(u n), u = x / sum x.
double divergence(const Numbers& x) {
  double kl = 0;
  const auto n = static_cast<double>(x.size());
  for (const double v : x) {
    if (v > 0) kl += v / (n * average(x)) * std::log(v / average(x));
  }
  return kl;
}

double angle(const Numbers& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  if (squares == 0) return 0;
  const auto n = static_cast<double>(x.size());
  const double cosine = n * average(x) / std::sqrt(n * squares);
  return std::acos(std::min(1.0, cosine)) * 180 / std::numbers::pi;
}

struct Clients {
  Numbers samples, loss, accuracy, train_samples, train_loss;

  std::vector<ClientEvaluation> list() const {
    std::vector<ClientEvaluation> all;
    for (std::size_t i = 0; i < loss.size(); ++i) {
      all.push_back({samples[i], loss[i], accuracy[i], train_samples[i], train_loss[i]});
      all.back().client = static_cast<int64_t>(i);
    }
    return all;
  }
};

// `kind` 0: all different; 1: many ties and zeros; 2: all accuracies zero; 3: all one.
Clients make_clients(std::size_t n, int kind) {
  Clients clients;
  for (std::size_t i = 0; i < n; ++i) {
    const auto mixed = static_cast<double>((i * 37 + 11) % 101);
    clients.samples.push_back(1 + static_cast<double>(i * i % 7));
    clients.train_samples.push_back(3 + static_cast<double>(i % 5));
    clients.loss.push_back(kind == 1 ? std::floor(mixed / 40) : 0.1 + mixed / 50);
    clients.train_loss.push_back(mixed / 70);
    clients.accuracy.push_back(kind == 0   ? mixed / 101
                               : kind == 1 ? std::floor(mixed / 34) / 2
                                           : kind - 2);
  }
  return clients;
}

TEST(Summarize, EveryMetricByItsDefinition) {
  for (const std::size_t n : {1, 2, 9, 10, 19, 20, 21, 40}) {
    for (int kind = 0; kind < 4; ++kind) {
      const Clients c = make_clients(n, kind);
      Numbers before = c.train_loss;
      for (std::size_t i = 0; i < n; ++i) before[i] += static_cast<double>(i % 3) - 1;  // -1, 0, 1
      const double h = std::log(static_cast<double>(n)) - divergence(c.accuracy);
      const std::vector<std::pair<std::string, double>> expected{
          {"loss_mean", average(c.loss)},
          {"loss_weighted", weighted(c.loss, c.samples)},
          {"loss_std", spread(c.loss)},
          {"loss_worst10", highest(c.loss, 10)},
          {"loss_best10", lowest(c.loss, 10)},
          {"train_loss_mean", average(c.train_loss)},
          {"train_loss_weighted", weighted(c.train_loss, c.train_samples)},
          {"accuracy_mean", average(c.accuracy)},
          {"accuracy_weighted", weighted(c.accuracy, c.samples)},
          {"accuracy_std", spread(c.accuracy)},
          {"accuracy_worst10", lowest(c.accuracy, 10)},
          {"accuracy_best10", highest(c.accuracy, 10)},
          {"accuracy_worst5", lowest(c.accuracy, 5)},
          {"accuracy_best5", highest(c.accuracy, 5)},
          {"accuracy_gini", pairwise_gini(c.accuracy)},
          {"accuracy_gap", highest(c.accuracy, 10) - lowest(c.accuracy, 10)},
          {"accuracy_entropy", h},
          {"accuracy_kl", divergence(c.accuracy)},
          {"accuracy_angle", angle(c.accuracy)},
          {"improved", static_cast<double>(n - (n + 2) / 3) / static_cast<double>(n)},
          {"train_loss_fell", static_cast<double>(n / 3) / static_cast<double>(n)},  // i = 2, 5
      };
      const Metrics metrics = summarize(EvaluationTable(c.list()), before, true);
      ASSERT_EQ(metrics.size(), expected.size());
      for (std::size_t m = 0; m < metrics.size(); ++m) {
        EXPECT_EQ(metrics[m].first, expected[m].first);
        // the square root and the arc cosine of rounding errors
        const bool rough = kind == 3 || n == 1;
        EXPECT_NEAR(metrics[m].second, expected[m].second, rough ? 1e-5 : 1e-7)
            << expected[m].first << " of " << n << " clients, kind " << kind;
      }
    }
  }
}

// Who is shown under which name, and with which of its numbers.
TEST(Summarize, ClientsForTestsAndForValidation) {
  const auto comm = make_single_communicator();
  const DataOptions data{.kind = "random",
                         .test_fraction = 0.25,
                         .validation_fraction = 2,
                         .shape = {3},
                         .classes = 2};
  const Federation federation = Federation::load(
      data, {.clients = 6, .samples = 20, .held_out = 1, .validation_clients = 2}, 1, *comm);
  TinyModel model;
  RowEvaluator evaluator(federation, model);
  std::vector<float> row(kParams);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = 0.3F - 0.02F * static_cast<float>(i);
  evaluator.at(row);
  const auto loss = [&](SampleRange range) {
    return slow_evaluate(federation, row, range).loss / static_cast<double>(range.size());
  };
  const auto mean_loss = [&](std::vector<int64_t> clients, auto range_of) {
    double sum = 0;
    for (const int64_t c : clients) sum += loss(range_of(c));
    return sum / static_cast<double>(clients.size());
  };
  const auto test = [&](int64_t c) { return federation.test(c); };
  const auto validation = [&](int64_t c) { return federation.validation(c); };
  const std::vector<int64_t> trained{0, 1, 2}, validating{3, 4}, tested{5};
  using Expected = std::map<std::string, double>;
  const std::pair<EvaluateOn, Expected> cases[] = {
      {EvaluateOn::kTest,
       {{"loss_mean", mean_loss(trained, test)}, {"held_out_loss_mean", mean_loss(tested, test)}}},
      {EvaluateOn::kValidation,
       {{"loss_mean", mean_loss(trained, validation)},
        {"held_out_loss_mean", mean_loss(validating, validation)}}},
      {EvaluateOn::kBoth,
       {{"loss_mean", mean_loss(trained, test)},
        {"held_out_loss_mean", mean_loss(tested, test)},
        {"validation_loss_mean", mean_loss(trained, validation)},
        {"validation_held_out_loss_mean", mean_loss(validating, validation)}}}};
  for (const auto& [on, expected] : cases) {
    const EvaluationRequest request{.clients = {0, 1, 2, 3, 4, 5}, .asked = {.on = on}};
    const auto found =
        evaluate(federation, request, [&](std::size_t) -> Evaluator& { return evaluator; });
    Expected means;
    for (const auto& [name, value] : summarize_all(found, {}, federation, request.asked)) {
      if (name.ends_with("loss_mean") && name != "train_loss_mean") means[name] = value;
    }
    ASSERT_EQ(means.size(), expected.size());
    for (const auto& [name, value] : expected) EXPECT_NEAR(means[name], value, 1e-12) << name;
    EXPECT_NEAR(found[1].train_loss, loss(federation.train(1)), 1e-12);
    EXPECT_TRUE(evaluated_apart(federation, 0, on));
  }
}

TEST(Summarize, TenPercentOfAnyNumberOfClients) {
  for (std::size_t n = 1; n <= 300; ++n) {
    std::vector<ClientEvaluation> clients(n);
    for (std::size_t i = 0; i < n; ++i) clients[i] = {1, 0, static_cast<double>(i), 1, 0};
    const Metrics metrics = summarize(EvaluationTable(clients), {}, true);
    const std::map<std::string, double> value(metrics.begin(), metrics.end());
    const auto mean_of_first = [](std::size_t k) { return (static_cast<double>(k) - 1) / 2; };
    EXPECT_DOUBLE_EQ(value.at("accuracy_worst10"), mean_of_first(std::max<std::size_t>(1, n / 10)));
    EXPECT_DOUBLE_EQ(value.at("accuracy_worst5"), mean_of_first(std::max<std::size_t>(1, n / 20)));
  }
}

// `improved` counts participants whose loss did not rise, the others all clients whose loss fell.
TEST(Summarize, WhoImproved) {
  const Numbers now{1, 2, 3, 4, 5};
  const Numbers before{2, 2, 1, 9, 9};
  std::vector<ClientEvaluation> clients(5);
  const auto found = [&](const std::string& name, const Numbers& previous) {
    for (std::size_t i = 0; i < 5; ++i) {
      clients[i].client = static_cast<int64_t>(i);
      clients[i].train_loss = now[i];
    }
    for (const auto& [metric, value] : summarize(EvaluationTable(clients), previous, 3)) {
      if (metric == name) return value;
    }
    return -1.0;
  };
  clients[3].took_part = clients[4].took_part = false;
  EXPECT_DOUBLE_EQ(found("improved", before), 2.0 / 3);
  EXPECT_DOUBLE_EQ(found("train_loss_fell", before), 3.0 / 5);
  for (const char* name : {"improved", "train_loss_fell"}) {
    EXPECT_TRUE(std::isnan(found(name, {}))) << name;  // no evaluation before
  }
  // A client that the evaluation before left out is not counted.
  EXPECT_DOUBLE_EQ(found("improved", {2, std::nan(""), 1, 9, 9}), 1.0 / 2);
  EXPECT_DOUBLE_EQ(found("train_loss_fell", {2, std::nan(""), 1, 9, 9}), 3.0 / 4);
  for (auto& client : clients) client.took_part = false;
  EXPECT_TRUE(std::isnan(found("improved", before)));
}

TEST(Summarize, RegressionHasNoAccuracies) {
  for (const auto& [name, value] :
       summarize(EvaluationTable(make_clients(5, 0).list()), {}, false)) {
    EXPECT_EQ(name.find("accuracy"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace hanse
