#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {
namespace {

constexpr int64_t kSizes[] = {1, 2, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025, 5000, 100000};

void expect_equal(const ClientSet& set, const std::set<int64_t>& expected) {
  ASSERT_EQ(set.size(), static_cast<int64_t>(expected.size()));
  EXPECT_EQ(set.full(), set.size() == set.clients());
  int64_t k = 0;
  for (const int64_t client : expected) ASSERT_EQ(set.select(k++), client);
  for (int64_t client = 0; client < set.clients(); ++client) {
    ASSERT_EQ(set.contains(client), expected.count(client) != 0) << client;
  }
}

std::set<int64_t> everyone(int64_t clients) {
  std::set<int64_t> all;
  for (int64_t client = 0; client < clients; ++client) all.insert(all.end(), client);
  return all;
}

void toggle(ClientSet& set, std::set<int64_t>& expected, int64_t client) {
  set.toggle(client);
  if (expected.erase(client) == 0) expected.insert(client);
}

TEST(ClientSet, StartsFull) {
  for (const int64_t clients : kSizes) {
    expect_equal(ClientSet(clients), everyone(clients));
  }
}

TEST(ClientSet, RandomChangesAreThoseOfAnOrderedSet) {
  for (const int64_t clients : kSizes) {
    SCOPED_TRACE(clients);
    ClientSet set(clients);
    auto expected = everyone(clients);
    RandomStream stream(1, Purpose::kData, static_cast<uint64_t>(clients));
    for (int stage = 0; stage < 4; ++stage) {
      for (int64_t i = 0; i < clients / 2 + 1; ++i) toggle(set, expected, stream.below(clients));
      expect_equal(set, expected);
    }
  }
}

TEST(ClientSet, TheLastOneEveryBorderAndNobody) {
  for (const int64_t clients : kSizes) {
    SCOPED_TRACE(clients);
    ClientSet set(clients);
    for (int64_t client = 0; client < clients; ++client) set.toggle(client);
    expect_equal(set, {});
    for (const int64_t client : {int64_t{0}, clients / 2, clients - 1}) {
      set.toggle(client);
      expect_equal(set, {client});
      set.toggle(client);
    }
    std::set<int64_t> borders;
    for (int64_t client = 0; client < clients; client += 64) {
      toggle(set, borders, client);
      if (client > 0) toggle(set, borders, client - 1);
    }
    expect_equal(set, borders);
  }
}

TEST(ClientSet, BackToFullIsFull) {
  ClientSet set(700);
  for (int round = 0; round < 2; ++round) {
    for (int64_t client = 3; client < 700; client += 7) set.toggle(client);
  }
  expect_equal(set, everyone(700));
}

}  // namespace
}  // namespace hanse
