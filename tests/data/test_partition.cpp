#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "hanse/data/partition.hpp"
#include "support.hpp"

namespace hanse {
namespace {

// Well formed, nobody without a sample, no sample twice.
void expect_disjoint(const Partition& partition, int64_t clients, int64_t samples) {
  ASSERT_EQ(partition.clients(), clients);
  EXPECT_EQ(partition.offsets.front(), 0);
  EXPECT_EQ(partition.offsets.back(), static_cast<int64_t>(partition.order.size()));
  EXPECT_EQ(partition.train_end,
            std::vector<int64_t>(partition.offsets.begin() + 1, partition.offsets.end()));
  for (const int64_t size : client_sizes(partition)) EXPECT_GE(size, 1);
  const std::set<int64_t> seen(partition.order.begin(), partition.order.end());
  EXPECT_EQ(seen.size(), partition.order.size());
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), samples);
}

struct Case {
  std::string kind;
  int64_t samples;
  int64_t classes;
  int64_t clients;
  int64_t per_client = 2;

  FederationOptions options() const {
    return {.clients = clients,
            .partition = kind,
            .min_samples = 1,
            .labels_per_client = per_client,
            .sizes = {1, 2},
            .size_probabilities = {0.5, 0.5}};
  }
};

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.kind;
  std::erase(name, '-');
  return name + "_" + std::to_string(info.param.samples) + "_" + std::to_string(info.param.clients);
}

class EveryPartition : public testing::TestWithParam<Case> {};

TEST_P(EveryPartition, IsDisjointCoveringAndPure) {
  const Case& c = GetParam();
  const Dataset dataset = cyclic_dataset(c.samples, c.classes);
  for (const uint64_t seed : {0, 1, 2}) {
    const Partition partition = partition_samples(dataset, c.options(), seed);
    expect_disjoint(partition, c.clients, c.samples);
    EXPECT_TRUE(c.kind == "sizes" || partition.offsets.back() == c.samples);
    const Partition again = partition_samples(dataset, c.options(), seed);
    EXPECT_EQ(again.order, partition.order);
    EXPECT_EQ(again.offsets, partition.offsets);
  }
}

INSTANTIATE_TEST_SUITE_P(
    AwkwardSizes, EveryPartition,
    testing::Values(
        Case{"iid", 1, 1, 1}, Case{"iid", 101, 3, 1}, Case{"iid", 101, 3, 101},
        Case{"iid", 101, 3, 7}, Case{"dirichlet", 1, 1, 1}, Case{"dirichlet", 101, 3, 1},
        Case{"dirichlet", 101, 3, 101}, Case{"dirichlet", 1001, 7, 13}, Case{"shards", 2, 1, 1},
        Case{"shards", 101, 3, 1}, Case{"shards", 101, 3, 50}, Case{"shards", 1001, 10, 13, 3},
        Case{"shards", 101, 5, 101, 1}, Case{"sizes", 2, 1, 1}, Case{"sizes", 101, 3, 50},
        Case{"sizes", 1001, 3, 13}, Case{"power-law", 1, 1, 1}, Case{"power-law", 101, 3, 101},
        Case{"power-law", 1001, 3, 13}, Case{"by-label", 101, 5, 3}, Case{"by-label", 101, 5, 9},
        Case{"by-label", 100, 10, 100, 1}, Case{"by-label", 23, 23, 23, 1}),
    case_name);

TEST(PartitionSamples, DependsOnTheSeed) {
  const Dataset dataset = cyclic_dataset(101, 5);
  for (const char* kind :
       {"iid", "dirichlet", "shards", "sizes", "power-law", "by-label", "labels"}) {
    const FederationOptions options = Case{kind, 101, 5, 9}.options();
    EXPECT_NE(partition_samples(dataset, options, 1).order,
              partition_samples(dataset, options, 2).order)
        << kind;
  }
}

TEST(PartitionIid, SizesDifferByOneAtMost) {
  const auto sizes = client_sizes(
      partition_samples(cyclic_dataset(103, 2), {.clients = 10, .partition = "iid"}, 1));
  EXPECT_EQ(sizes, (std::vector<int64_t>{11, 11, 11, 10, 10, 10, 10, 10, 10, 10}));
}

TEST(PartitionIid, IsShuffled) {
  const Partition partition =
      partition_samples(cyclic_dataset(1000, 2), {.clients = 2, .partition = "iid"}, 1);
  const auto own = client_samples(partition, 0);
  const auto low = std::count_if(own.begin(), own.end(), [](int64_t i) { return i < 500; });
  EXPECT_NEAR(static_cast<double>(low), 250, 5 * std::sqrt(125.0));
}

TEST(PartitionSizes, FollowTheProbabilities) {
  FederationOptions options{.clients = 20000, .partition = "sizes"};
  options.sizes = {1, 4, 9};
  options.size_probabilities = {0.6, 0.3, 0.1};
  std::map<int64_t, double> counts;
  for (const int64_t size :
       client_sizes(partition_samples(cyclic_dataset(100000, 10), options, 3))) {
    ++counts[size];
  }
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_NEAR(counts[1], 12000, 5 * std::sqrt(20000 * 0.6 * 0.4));
  EXPECT_NEAR(counts[4], 6000, 5 * std::sqrt(20000 * 0.3 * 0.7));
  EXPECT_NEAR(counts[9], 2000, 5 * std::sqrt(20000 * 0.1 * 0.9));
}

TEST(PartitionSizes, AClientsSizeDoesNotDependOnTheNumberOfClients) {
  FederationOptions options{.clients = 50, .partition = "sizes"};
  const Dataset dataset = cyclic_dataset(10000, 10);
  const auto many = client_sizes(partition_samples(dataset, options, 3));
  options.clients = 20;
  const auto few = client_sizes(partition_samples(dataset, options, 3));
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

TEST(PartitionSizes, AZeroProbabilityIsNeverDrawn) {
  FederationOptions options{.clients = 100, .partition = "sizes"};
  options.sizes = {500, 3, 700};
  options.size_probabilities = {0, 1, 0};
  EXPECT_EQ(client_sizes(partition_samples(cyclic_dataset(300, 10), options, 3)),
            std::vector<int64_t>(100, 3));
}

TEST(PartitionSizes, BadArgumentsAreRefused) {
  const Dataset dataset = cyclic_dataset(100, 10);
  FederationOptions options{.clients = 40, .partition = "sizes"};
  options.sizes = {3};
  options.size_probabilities = {1};
  const auto expect_bad = [&](const std::vector<std::string>& parts) {
    expect_invalid([&] { partition_samples(dataset, options, 1); }, parts);
  };
  expect_bad({"40 clients need 120 samples, there are 100", "federation.sizes"});
  options.size_probabilities = {0.5, 0.5};
  expect_bad({"1 sizes but 2 probabilities"});
  options.sizes = {0, 1};
  expect_bad({"a size is below 1"});
  options.sizes = {1, 2};
  options.size_probabilities = {0.5, 0.6};
  expect_bad({"sum to 1.1", "federation.size-probabilities"});
  options.size_probabilities = {-0.5, 1.5};
  expect_bad({"federation.size-probabilities"});
  options.size_probabilities = {std::nan(""), 1};
  expect_bad({"federation.size-probabilities"});
}

// Against the quantiles of the density, computed directly.
TEST(PartitionPowerLaw, SizesAreQuantiles) {
  FederationOptions options{.clients = 10, .partition = "power-law", .min_samples = 1};
  options.power = 2.5;
  auto sizes = client_sizes(partition_samples(cyclic_dataset(100000, 10), options, 1));
  std::sort(sizes.begin(), sizes.end());
  std::vector<double> quantiles;
  for (int i = 0; i < 10; ++i) quantiles.push_back(std::pow(1 - (i + 0.5) / 10, -1 / 1.5));
  const double sum = std::accumulate(quantiles.begin(), quantiles.end(), 0.0);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(static_cast<double>(sizes[i]), 100000 * quantiles[i] / sum, 1) << i;
  }
}

TEST(PartitionPowerLaw, KeepsTheMinimumAndTheSum) {
  for (const double power : {1.0001, 1.2, 2.0, 50.0}) {
    for (const int64_t least : {1, 7, 10}) {
      FederationOptions options{.clients = 100, .partition = "power-law", .min_samples = least};
      options.power = power;
      const auto sizes = client_sizes(partition_samples(cyclic_dataset(1003, 10), options, 1));
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), 1003);
      EXPECT_GE(*std::min_element(sizes.begin(), sizes.end()), least);
      if (power == 1.0001 && least == 1) {
        EXPECT_EQ(*std::max_element(sizes.begin(), sizes.end()), 1003 - 99);
      }
    }
  }
}

TEST(PartitionPowerLaw, LargeClientsStandAnywhere) {
  FederationOptions options{.clients = 100, .partition = "power-law"};
  const auto sizes = client_sizes(partition_samples(cyclic_dataset(5000, 10), options, 1));
  EXPECT_FALSE(std::is_sorted(sizes.begin(), sizes.end()));
  EXPECT_FALSE(std::is_sorted(sizes.rbegin(), sizes.rend()));
}

TEST(PartitionPowerLaw, BadArgumentsAreRefused) {
  const Dataset dataset = cyclic_dataset(100, 10);
  FederationOptions options{.clients = 40, .partition = "power-law", .min_samples = 3};
  expect_invalid([&] { partition_samples(dataset, options, 1); },
                 {"40 clients", "at least 3 of 100", "federation.min-samples", "1 to 2"});
  options.min_samples = 1;
  for (const double power : {1.0, std::nan(""), HUGE_VAL}) {
    options.power = power;
    expect_invalid([&] { partition_samples(dataset, options, 1); }, {"federation.power"});
  }
}

TEST(PartitionByColumn, FollowsTheGroups) {
  Dataset dataset = cyclic_dataset(6, 2);
  dataset.groups = {2, 0, 2, 1, 0, 2};
  dataset.group_names = {"x", "y", "z"};
  const FederationOptions options{.clients = 99, .partition = "by-column"};
  const Partition partition = partition_samples(dataset, options, 1);
  expect_disjoint(partition, 3, 6);
  EXPECT_EQ(partition.order, (std::vector<int64_t>{1, 4, 3, 0, 2, 5}));
  EXPECT_EQ(partition.offsets, (std::vector<int64_t>{0, 2, 3, 6}));
}

TEST(PartitionByColumn, NeedsAClientColumn) {
  expect_invalid([] { partition_samples(cyclic_dataset(6, 2), {.partition = "by-column"}, 1); },
                 {"client column", "federation.partition", "data.client-column"});
}

TEST(PartitionSamples, BadArgumentsAreRefused) {
  const Dataset dataset = cyclic_dataset(6, 2);
  expect_invalid([&] { partition_samples(dataset, {.clients = 7, .partition = "iid"}, 1); },
                 {"more clients (7) than samples (6)", "federation.clients"});
  expect_invalid([&] { partition_samples(dataset, {.clients = 0, .partition = "iid"}, 1); },
                 {"0 clients", "federation.clients"});
  expect_invalid([&] { partition_samples(dataset, {.partition = "dirichelet"}, 1); },
                 {"'dirichelet'", "did you mean 'dirichlet'", "by-column"});
}

TEST(PartitionSamples, RegressionDataHaveNoLabels) {
  const Dataset dataset = regression_dataset(20);
  for (const char* kind : {"dirichlet", "shards", "by-label", "labels"}) {
    expect_invalid([&] { partition_samples(dataset, {.clients = 2, .partition = kind}, 1); },
                   {kind, "needs one class a sample", "regression"});
  }
  for (const char* kind : {"iid", "power-law"}) {
    expect_disjoint(partition_samples(dataset, {.clients = 2, .partition = kind}, 1), 2, 20);
  }
}

}  // namespace
}  // namespace hanse
