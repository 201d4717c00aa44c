#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "hanse/data/partition.hpp"
#include "support.hpp"

namespace hanse {
namespace {

using LabelCounts = std::map<int32_t, int64_t>;

LabelCounts label_counts(const Dataset& dataset, const Partition& partition, int64_t begin,
                         int64_t end) {
  LabelCounts counts;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t sample = partition.order[static_cast<std::size_t>(i)];
    ++counts[dataset.labels.empty() ? 0 : dataset.labels[static_cast<std::size_t>(sample)]];
  }
  return counts;
}

// All samples in one client, ascending.
Partition one_client(const Dataset& dataset) {
  Partition partition{.order = {}, .offsets = {0, dataset.size()}, .train_end = {dataset.size()}};
  for (int64_t i = 0; i < dataset.size(); ++i) partition.order.push_back(i);
  return partition;
}

LabelCounts test_counts(const Dataset& dataset, double fraction, uint64_t seed) {
  Partition partition = one_client(dataset);
  split_train_test(partition, dataset, fraction, seed);
  return label_counts(dataset, partition, partition.train_end[0], partition.offsets[1]);
}

TEST(SplitTrainTest, IsStratified) {
  std::vector<int32_t> labels(100, 0);
  std::fill(labels.begin() + 50, labels.begin() + 80, 1);
  std::fill(labels.begin() + 80, labels.end(), 3);
  const Dataset dataset = numbered_dataset(labels, 4);
  EXPECT_EQ(test_counts(dataset, 0.2, 1), (LabelCounts{{0, 10}, {1, 6}, {3, 4}}));
}

TEST(SplitTrainTest, LeftoversGoToTheLargestRemainders) {
  // 0.25 of 7, 5, 4 is 1.75, 1.25, 1: round(0.25 * 16) = 4.
  const Dataset dataset = numbered_dataset({0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2}, 3);
  for (const uint64_t seed : {1, 2, 3}) {
    EXPECT_EQ(test_counts(dataset, 0.25, seed), (LabelCounts{{0, 2}, {1, 1}, {2, 1}}));
  }
}

TEST(SplitTrainTest, EqualRemaindersPreferNoLabel) {
  const Dataset dataset = numbered_dataset({0, 1, 2, 3}, 4);
  LabelCounts sum;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    for (const auto& [label, count] : test_counts(dataset, 0.25, seed)) sum[label] += count;
  }
  for (int32_t label = 0; label < 4; ++label) EXPECT_NEAR(sum[label], 100, 45) << label;
}

TEST(SplitTrainTest, EverySampleCanBeInTheTest) {
  const Dataset dataset = cyclic_dataset(10, 1);
  std::map<int64_t, int> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Partition partition = one_client(dataset);
    split_train_test(partition, dataset, 0.2, seed);
    for (int64_t i = partition.train_end[0]; i < 10; ++i) {
      ++seen[partition.order[static_cast<std::size_t>(i)]];
    }
  }
  ASSERT_EQ(seen.size(), 10U);
  for (const auto& [sample, count] : seen) EXPECT_NEAR(count, 40, 30) << sample;
}

class SplitOfClients : public testing::TestWithParam<std::tuple<double, int64_t>> {};

TEST_P(SplitOfClients, CountsAreExactAndNobodyLosesSamples) {
  const auto [fraction, classes] = GetParam();
  Dataset dataset = cyclic_dataset(500, std::max<int64_t>(classes, 1));
  if (classes == 0) dataset = regression_dataset(500);
  FederationOptions options{.clients = 40, .partition = "power-law", .min_samples = 1};
  const Partition before = partition_samples(dataset, options, 1);
  Partition after = before;
  split_train_test(after, dataset, fraction, 1);
  ASSERT_EQ(after.offsets, before.offsets);
  for (std::size_t c = 0; c < 40; ++c) {
    const int64_t begin = before.offsets[c], end = before.offsets[c + 1];
    const auto test =
        static_cast<int64_t>(std::llround(fraction * static_cast<double>(end - begin)));
    EXPECT_EQ(end - after.train_end[c], std::min(test, end - begin - 1)) << c;
    const auto all = label_counts(dataset, before, begin, end);
    const auto tested = label_counts(dataset, after, after.train_end[c], end);
    for (const auto& [label, count] : tested) {
      EXPECT_LT(
          std::abs(static_cast<double>(count) - fraction * static_cast<double>(all.at(label))),
          1.0);
    }
    auto was = client_samples(before, static_cast<int64_t>(c));
    auto is = client_samples(after, static_cast<int64_t>(c));
    std::sort(was.begin(), was.end());
    std::sort(is.begin(), is.end());
    EXPECT_EQ(is, was);
  }
}

INSTANTIATE_TEST_SUITE_P(Fractions, SplitOfClients,
                         testing::Combine(testing::Values(0.0, 0.1, 0.2, 0.5, 0.7, 0.99),
                                          testing::Values(0, 1, 3, 10)));

TEST(SplitTrainTest, OneSampleIsForTraining) {
  const Dataset dataset = cyclic_dataset(5, 5);
  Partition partition = partition_samples(dataset, {.clients = 5, .partition = "iid"}, 1);
  split_train_test(partition, dataset, 0.9, 1);
  EXPECT_EQ(partition.train_end, (std::vector<int64_t>{1, 2, 3, 4, 5}));
}

TEST(SplitTrainTest, ZeroChangesNothing) {
  const Dataset dataset = cyclic_dataset(50, 5);
  const Partition before = partition_samples(dataset, {.clients = 5, .partition = "iid"}, 1);
  Partition after = before;
  split_train_test(after, dataset, 0, 1);
  EXPECT_EQ(after.order, before.order);
  EXPECT_EQ(after.train_end, before.train_end);
}

TEST(SplitTrainTest, IsAPureFunctionOfSeedAndClient) {
  const Dataset dataset = cyclic_dataset(500, 5);
  const FederationOptions options{.clients = 5, .partition = "iid"};
  std::vector<std::vector<int64_t>> orders;
  for (const uint64_t seed : {1, 1, 2}) {
    Partition partition = partition_samples(dataset, options, 7);
    split_train_test(partition, dataset, 0.2, seed);
    orders.push_back(partition.order);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
}

TEST(SplitTrainTest, BadFractionsAreRefused) {
  const Dataset dataset = cyclic_dataset(5, 5);
  for (const double fraction : {-0.1, 1.5, 1e300, std::nan("")}) {
    Partition partition = one_client(dataset);
    expect_invalid([&] { split_train_test(partition, dataset, fraction, 1); },
                   {"data.test-fraction", "a share below 1, or a whole number"});
  }
}

// From 1 on it is a number of samples, stratified as a share is.
TEST(SplitTrainTest, ANumberOfSamples) {
  const Dataset dataset = cyclic_dataset(40, 4);
  for (const auto& [wanted, tests] :
       {std::pair{1.0, 1}, {8.0, 8}, {39.0, 39}, {40.0, 39}, {1e9, 39}}) {
    Partition partition = one_client(dataset);
    split_train_test(partition, dataset, wanted, 3);
    ASSERT_EQ(40 - partition.train_end[0], tests);
    std::vector<int> of_label(4);
    for (int64_t i = partition.train_end[0]; i < 40; ++i) {
      ++of_label[static_cast<std::size_t>(partition.order[static_cast<std::size_t>(i)] % 4)];
    }
    for (const int count : of_label) EXPECT_LE(std::abs(count - tests / 4), 1);
  }
}

// It takes what the test part leaves, which stays what it is, and is stratified as that is.
TEST(SplitValidation, ComesFromTheTrainingSamples) {
  const Dataset dataset = cyclic_dataset(200, 4);
  const FederationOptions options{.clients = 6, .partition = "power-law", .min_samples = 9};
  for (const double wanted : {0.25, 3.0}) {
    Partition tests = partition_samples(dataset, options, 1);
    split_train_test(tests, dataset, 0.2, 5);
    Partition both = tests;
    split_validation(both, dataset, {}, wanted, 5);
    ASSERT_EQ(both.validation.size(), 6U);
    for (std::size_t c = 0; c < 6; ++c) {
      const int64_t begin = tests.offsets[c], train = tests.train_end[c] - begin;
      const int64_t chosen = wanted < 1 ? std::llround(wanted * static_cast<double>(train)) : 3;
      EXPECT_EQ(both.validation[c], chosen);
      EXPECT_EQ(both.train_end[c], tests.train_end[c] - chosen);
      for (int64_t i = tests.train_end[c]; i < tests.offsets[c + 1]; ++i) {
        EXPECT_EQ(both.order[static_cast<std::size_t>(i)],
                  tests.order[static_cast<std::size_t>(i)]);
      }
      const auto all = label_counts(dataset, tests, begin, tests.train_end[c]);
      const auto drawn = label_counts(dataset, both, both.train_end[c], tests.train_end[c]);
      const double share = static_cast<double>(chosen) / static_cast<double>(train);
      for (const auto& [label, count] : all) {
        const auto found = drawn.find(label);
        const int64_t of_label = found == drawn.end() ? 0 : found->second;
        EXPECT_LT(std::abs(static_cast<double>(of_label) - share * static_cast<double>(count)), 1)
            << "client " << c << ", label " << label;
      }
      auto was = client_samples(tests, static_cast<int64_t>(c));
      auto is = client_samples(both, static_cast<int64_t>(c));
      std::ranges::sort(was);
      std::ranges::sort(is);
      EXPECT_EQ(is, was);
    }
  }
}

// Drawn by a stream of its own: the same places would be the same share of a label's first samples.
TEST(SplitValidation, IsNoCopyOfTheTestPart) {
  const Dataset dataset = cyclic_dataset(100, 1);
  Partition tests = one_client(dataset), validation = tests;
  split_train_test(tests, dataset, 0.3, 1);
  split_validation(validation, dataset, {}, 0.3, 1);
  EXPECT_EQ(tests.train_end, validation.train_end);
  EXPECT_NE(tests.order, validation.order);
}

TEST(SplitValidation, EveryClientKeepsSomethingToTrainOn) {
  const Dataset dataset = cyclic_dataset(9, 1);
  const auto split = [&](double wanted, const std::vector<std::string>& names) {
    Partition partition{
        .order = {0, 1, 2, 3, 4, 5, 6, 7, 8}, .offsets = {0, 6, 9}, .train_end = {6, 9}};
    split_validation(partition, dataset, names, wanted, 1);
    return partition.train_end;
  };
  EXPECT_EQ(split(2, {}), (std::vector<int64_t>{4, 7}));
  EXPECT_EQ(split(0, {}), (std::vector<int64_t>{6, 9}));
  expect_invalid(
      [&] {
        split(3, {"Basel", "Zug"});
      },
      {"client 'Zug' would have nothing to train on", "3 samples", "data.validation-fraction"});
  expect_invalid([&] { split(0.95, {}); }, {"client 0 would have"});
  expect_invalid([&] { split(1.5, {}); }, {"data.validation-fraction", "a share below 1"});
}

}  // namespace
}  // namespace hanse
