// The partitions that look at labels: who gets which classes.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "hanse/data/partition.hpp"
#include "support.hpp"

namespace hanse {
namespace {

// Samples of every class a client has, [clients][classes].
std::vector<std::vector<int64_t>> class_counts(const Dataset& dataset, const Partition& partition) {
  std::vector<std::vector<int64_t>> counts;
  for (int64_t c = 0; c < partition.clients(); ++c) {
    counts.emplace_back(static_cast<std::size_t>(dataset.classes));
    for (const int64_t i : client_samples(partition, c)) {
      ++counts.back()[static_cast<std::size_t>(dataset.labels[static_cast<std::size_t>(i)])];
    }
  }
  return counts;
}

std::set<int32_t> classes_of(const Dataset& dataset, const Partition& partition, int64_t client) {
  std::set<int32_t> classes;
  for (const int64_t i : client_samples(partition, client)) {
    classes.insert(dataset.labels[static_cast<std::size_t>(i)]);
  }
  return classes;
}

// Mean over clients of the largest class's share: 1/classes for equal shares, 1 for one class.
double concentration(double alpha, int64_t clients) {
  const Dataset dataset = cyclic_dataset(10000, 10);
  FederationOptions options{.clients = clients, .partition = "dirichlet", .min_samples = 1};
  options.alpha = alpha;
  double sum = 0;
  for (const auto& counts : class_counts(dataset, partition_samples(dataset, options, 1))) {
    const auto total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    sum += static_cast<double>(*std::max_element(counts.begin(), counts.end())) /
           static_cast<double>(total);
  }
  return sum / static_cast<double>(clients);
}

TEST(PartitionDirichlet, AlphaSetsTheConcentration) {
  const double tiny = concentration(0.01, 20);
  const double small = concentration(0.1, 20);
  const double middle = concentration(1, 20);
  const double large = concentration(1000, 20);
  EXPECT_GT(tiny, 0.85);
  EXPECT_GT(tiny, small);
  EXPECT_GT(small, middle + 0.2);
  EXPECT_GT(middle, large + 0.1);
  EXPECT_NEAR(large, 0.1, 0.02);
}

// Var of a Dirichlet share is (1/N)(1 - 1/N) / (N alpha + 1).
TEST(PartitionDirichlet, SharesHaveTheRightMoments) {
  constexpr double kClients = 5;
  const Dataset dataset = cyclic_dataset(400 * 1000, 400);
  FederationOptions options{.clients = 5, .partition = "dirichlet", .min_samples = 1};
  for (const double alpha : {0.3, 2.0}) {
    options.alpha = alpha;
    double sum = 0, squares = 0;
    for (const auto& counts : class_counts(dataset, partition_samples(dataset, options, 7))) {
      for (const int64_t count : counts) {
        const double share = static_cast<double>(count) / 1000;
        sum += share;
        squares += (share - 1 / kClients) * (share - 1 / kClients);
      }
    }
    const double expected = 1 / kClients * (1 - 1 / kClients) / (kClients * alpha + 1);
    EXPECT_NEAR(sum / (400 * kClients), 1 / kClients, 1e-12);
    EXPECT_NEAR(squares / (400 * kClients), expected, 0.15 * expected) << alpha;
  }
}

TEST(PartitionDirichlet, SmallClassesReachEveryClient) {
  const Dataset dataset = cyclic_dataset(100 * 30, 100);  // 30 samples a class, 50 clients
  FederationOptions options{.clients = 50, .partition = "dirichlet", .min_samples = 1};
  options.alpha = 1e6;
  const auto sizes = client_sizes(partition_samples(dataset, options, 1));
  // A class gives a client floor or ceil of 0.6: the sum over 100 classes is near 60.
  EXPECT_GT(*std::min_element(sizes.begin(), sizes.end()), 35);
  EXPECT_LT(*std::max_element(sizes.begin(), sizes.end()), 85);
}

TEST(PartitionDirichlet, MinimumIsReachedByMoving) {
  const Dataset dataset = cyclic_dataset(1000, 10);
  FederationOptions options{.clients = 100, .partition = "dirichlet", .min_samples = 10};
  for (const double alpha : {1e-4, 0.05, 10.0}) {
    options.alpha = alpha;
    EXPECT_EQ(client_sizes(partition_samples(dataset, options, 3)), std::vector<int64_t>(100, 10));
  }
  options.min_samples = 5;
  options.alpha = 0.05;
  const auto sizes = client_sizes(partition_samples(dataset, options, 3));
  EXPECT_EQ(*std::min_element(sizes.begin(), sizes.end()), 5);
  EXPECT_GT(*std::max_element(sizes.begin(), sizes.end()), 20);
}

TEST(PartitionDirichlet, BadArgumentsAreRefused) {
  const Dataset dataset = cyclic_dataset(100, 10);
  FederationOptions options{.clients = 30, .partition = "dirichlet", .min_samples = 4};
  const auto expect_bad = [&](const std::vector<std::string>& parts) {
    expect_invalid([&] { partition_samples(dataset, options, 1); }, parts);
  };
  expect_bad({"30 clients", "at least 4 of 100", "1 to 3 are possible"});
  options.min_samples = 0;
  expect_bad({"federation.min-samples"});
  options.min_samples = 1;
  for (const double alpha : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    options.alpha = alpha;
    expect_bad({"federation.alpha"});
  }
}

TEST(PartitionShards, ClientsHoldFewClasses) {
  const Dataset dataset = cyclic_dataset(6000, 10);
  const FederationOptions options{.clients = 50, .partition = "shards", .labels_per_client = 2};
  const Partition partition = partition_samples(dataset, options, 1);
  std::set<std::set<int32_t>> kinds;
  for (int64_t c = 0; c < 50; ++c) {
    kinds.insert(classes_of(dataset, partition, c));
    EXPECT_LE(classes_of(dataset, partition, c).size(), 2U);  // shards of 60 divide classes of 600
  }
  EXPECT_GT(kinds.size(), 20U);
  EXPECT_EQ(client_sizes(partition), std::vector<int64_t>(50, 120));
}

TEST(PartitionShards, ShardSizesDifferByOneAtMost) {
  const Dataset dataset = cyclic_dataset(1003, 7);
  const FederationOptions options{.clients = 10, .partition = "shards", .labels_per_client = 3};
  for (const int64_t size : client_sizes(partition_samples(dataset, options, 1))) {
    EXPECT_GE(size, 3 * 33);
    EXPECT_LE(size, 3 * 34);
  }
}

TEST(PartitionShards, BadArgumentsAreRefused) {
  const Dataset dataset = cyclic_dataset(100, 10);
  for (const int64_t each : {0, 3}) {
    expect_invalid(
        [&] {
          const FederationOptions options{
              .clients = 50, .partition = "shards", .labels_per_client = each};
          partition_samples(dataset, options, 1);
        },
        {"50 clients", "federation.labels-per-client", "1 to 2"});
  }
}

TEST(PartitionByLabel, EveryClientHasItsGroup) {
  const Dataset dataset = cyclic_dataset(1001, 10);
  const FederationOptions options{.clients = 8, .partition = "by-label", .labels_per_client = 3};
  const Partition partition = partition_samples(dataset, options, 1);
  const std::vector<std::set<int32_t>> groups = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}};
  for (int64_t c = 0; c < 8; ++c) {
    EXPECT_EQ(classes_of(dataset, partition, c), groups[static_cast<std::size_t>(c % 4)]) << c;
  }
  // Class 0 has 101 samples, the others 100.
  EXPECT_EQ(client_sizes(partition), (std::vector<int64_t>{151, 150, 150, 50, 150, 150, 150, 50}));
}

// Labels 0 to 4 of unequal sizes; every client has its labels, and equal parts of each.
TEST(PartitionLabels, OwnersShareALabelEvenly) {
  std::vector<int32_t> labels;
  for (int32_t k = 0; k < 5; ++k)
    labels.insert(labels.end(), 20 + 7 * static_cast<std::size_t>(k), k);
  const Dataset dataset = numbered_dataset(labels, 5);
  for (const int64_t each : {1, 2, 3, 5}) {
    for (const int64_t clients : {3, 5, 12}) {
      const FederationOptions options{
          .clients = clients, .partition = "labels", .labels_per_client = each};
      const Partition partition = partition_samples(dataset, options, 9);
      std::map<int32_t, std::vector<int64_t>> counts;  // of each label, by owner
      std::set<int64_t> given;
      for (int64_t c = 0; c < clients; ++c) {
        std::map<int32_t, int64_t> own;
        for (const int64_t sample : client_samples(partition, c)) {
          ++own[labels[static_cast<std::size_t>(sample)]];
          EXPECT_TRUE(given.insert(sample).second);
        }
        EXPECT_EQ(std::ssize(own), each);
        EXPECT_EQ(own.count(static_cast<int32_t>(c % 5)), 1U);
        for (const auto& [label, count] : own) counts[label].push_back(count);
      }
      for (const auto& [label, own] : counts) {
        const auto [least, most] = std::ranges::minmax(own);
        EXPECT_LE(most - least, 1);
        EXPECT_EQ(std::accumulate(own.begin(), own.end(), int64_t{0}), 20 + 7 * label);
      }
      const bool all_owned = clients >= 5 || each == 5;
      if (all_owned) {
        EXPECT_EQ(std::ssize(given), std::ssize(labels));
      }
    }
  }
  const auto order = [&](uint64_t seed) {
    return partition_samples(dataset,
                             {.clients = 12, .partition = "labels", .labels_per_client = 2}, seed)
        .order;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(PartitionLabels, BadArgumentsAreRefused) {
  const Dataset dataset = numbered_dataset({0, 1, 2, 0, 1, 2}, 3);
  FederationOptions options{.clients = 3, .partition = "labels", .labels_per_client = 4};
  expect_invalid([&] { partition_samples(dataset, options, 1); }, {"4 labels", "1 to 3"});
  options = {.clients = 6, .partition = "labels", .labels_per_client = 1};
  EXPECT_EQ(partition_samples(dataset, options, 1).clients(), 6);
  const Dataset few = numbered_dataset({0, 1, 2, 0, 1, 1}, 3);
  expect_invalid([&] { partition_samples(few, options, 1); },
                 {"client 5", "none of the samples", "fewer clients"});
}

// Three classes have 400, 550 and 1010 samples: every client keeps at most its part's share.
TEST(PartitionClassShares, ClientsKeepSharesOfEqualParts) {
  std::vector<int32_t> labels(400, 0);
  labels.insert(labels.end(), 550, 1);
  labels.insert(labels.end(), 1010, 2);
  const Dataset dataset = numbered_dataset(labels, 3);
  for (const double share : {0.5, 1.0}) {
    double kept = 0, parts = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      const Partition partition = partition_samples(
          dataset, {.clients = 5, .partition = "class-shares", .share = share}, seed);
      std::set<int64_t> given(partition.order.begin(), partition.order.end());
      EXPECT_EQ(std::ssize(given), std::ssize(partition.order));  // none twice
      const auto counts = class_counts(dataset, partition);
      for (const auto& own : counts) {
        for (const auto& [count, size] : {std::pair{own[0], 400}, {own[1], 550}, {own[2], 1010}}) {
          EXPECT_LE(static_cast<double>(count), share * (size / 5 + 1) + 0.5);
          kept += static_cast<double>(count);
          parts += size / 5.0;
        }
      }
    }
    EXPECT_NEAR(kept / parts, share / 2, 0.02);  // 3000 uniform shares: deviation 0.005 share
  }
}

TEST(PartitionClassShares, BadArgumentsAreRefused) {
  const Dataset few = numbered_dataset({0, 1}, 2);
  expect_invalid(
      [&] { partition_samples(few, {.clients = 2, .partition = "class-shares", .share = 0.1}, 1); },
      {"client 0", "keeps no sample", "larger share"});
}

TEST(PartitionSimilarity, AShareIsAtRandomAndTheRestSorted) {
  const Dataset dataset = cyclic_dataset(1000, 10);
  for (const double similarity : {0.0, 0.3, 1.0}) {
    const Partition partition = partition_samples(
        dataset, {.clients = 5, .partition = "similarity", .similarity = similarity}, 7);
    EXPECT_EQ(std::set<int64_t>(partition.order.begin(), partition.order.end()).size(), 1000U);
    const auto counts = class_counts(dataset, partition);
    for (std::size_t client = 0; client < 5; ++client) {
      EXPECT_EQ(partition.offsets[client + 1] - partition.offsets[client], 200);
      int64_t own = 0;  // of the two classes that are the client's when all is sorted
      for (std::size_t k = 2 * client; k < 2 * client + 2; ++k) own += counts[client][k];
      EXPECT_NEAR(static_cast<double>(own), 200 - 160 * similarity, similarity > 0 ? 25 : 0);
    }
  }
}

TEST(PartitionByLabel, BadArgumentsAreRefused) {
  const Dataset dataset = cyclic_dataset(100, 10);
  FederationOptions options{.clients = 7, .partition = "by-label", .labels_per_client = 2};
  const auto expect_bad = [&](const Dataset& data, const std::vector<std::string>& parts) {
    expect_invalid([&] { partition_samples(data, options, 1); }, parts);
  };
  expect_bad(dataset, {"7 clients", "10 classes in groups of 2", "use 5, 10, 15", "multiple of 5"});
  options.labels_per_client = 11;
  expect_bad(dataset, {"groups of 11", "federation.labels-per-client", "1 to 10"});
  options.labels_per_client = 1;
  options.clients = 4;
  expect_bad(numbered_dataset({0, 0, 0, 0, 1}, 2), {"class group 1 has 1 samples for 2 clients"});
  options.clients = 2;
  expect_bad(numbered_dataset({1, 1, 1}, 2), {"class group 0 has 0 samples for 1 clients"});
}

}  // namespace
}  // namespace hanse
