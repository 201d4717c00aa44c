#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "rules/sampling/sum_tree.hpp"

namespace hanse {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 63, 64, 65, 511, 512, 513, 100000};

// Leaf i of a tree of whole numbers, so that every sum is exact: {number, number, count}.
std::vector<double> row_of(int64_t i, int64_t version) {
  RandomStream stream(2, Purpose::kData, static_cast<uint64_t>(i), static_cast<uint64_t>(version));
  const bool counts = stream.below(4) > 0;
  if (!counts) return {0, 0, 0};
  return {static_cast<double>(stream.below(9)), static_cast<double>(stream.below(5)), 1};
}

void put(SumTree& tree, int64_t i, const std::vector<double>& row) {
  std::copy(row.begin(), row.end(), tree.leaf(i).begin());
}

std::vector<double> naive_total(const SumTree& tree) {
  std::vector<double> sum(3);
  for (int64_t i = 0; i < tree.leaves(); ++i) {
    for (std::size_t c = 0; c < 3; ++c) sum[c] += tree.leaf(i)[c];
  }
  return sum;
}

std::vector<double> total_of(const SumTree& tree) {
  return {tree.total().begin(), tree.total().end()};
}

// The leaf that holds `target` by a running sum.
int64_t naive_find(const SumTree& tree, double target, const std::vector<double>& coefficients) {
  double sum = 0;
  for (int64_t i = 0; i < tree.leaves(); ++i) {
    const auto row = tree.leaf(i);
    sum += std::inner_product(row.begin(), row.end(), coefficients.begin(), 0.0);
    if (target < sum) return i;
  }
  return -1;
}

SumTree tree_of(int64_t leaves) {
  SumTree tree(3);
  tree.grow(leaves);
  for (int64_t i = 0; i < leaves; ++i) put(tree, i, row_of(i, 0));
  tree.refresh_all();
  return tree;
}

TEST(SumTree, SumsAreThoseOfTheLeaves) {
  for (const int64_t leaves : kSizes) {
    SCOPED_TRACE(leaves);
    SumTree tree = tree_of(leaves);
    EXPECT_EQ(total_of(tree), naive_total(tree));
    RandomStream stream(1, Purpose::kData);
    for (int64_t version = 1; version <= 20; ++version) {
      std::vector<int64_t> changed;
      for (int64_t i = 0; i < 1 + version % 7; ++i) {
        changed.push_back(stream.below(leaves));  // some twice
        put(tree, changed.back(), row_of(changed.back(), version));
      }
      tree.refresh(changed);
      ASSERT_EQ(total_of(tree), naive_total(tree));
    }
    tree.refresh({});
    ASSERT_EQ(total_of(tree), naive_total(tree));
  }
}

TEST(SumTree, FindsTheLeafOfEveryTarget) {
  const std::vector<double> coefficients{2, 0.5, 0.25};  // a leaf that counts has mass
  for (const int64_t leaves : kSizes) {
    SCOPED_TRACE(leaves);
    SumTree tree = tree_of(leaves);
    put(tree, leaves / 2, {1, 1, 1});
    tree.refresh(std::vector<int64_t>{leaves / 2});
    const auto total = naive_total(tree);
    const double mass = std::inner_product(total.begin(), total.end(), coefficients.begin(), 0.0);
    const double step = std::max(0.25, std::floor(mass / 200));
    for (double target = 0; target < mass; target += step) {
      ASSERT_EQ(tree.find(target, coefficients), naive_find(tree, target, coefficients)) << target;
    }
    const double last = mass - 0.25;
    EXPECT_EQ(tree.find(last, coefficients), naive_find(tree, last, coefficients));
  }
}

TEST(SumTree, NeverFindsALeafThatDoesNotCountNorOneWithoutMass) {
  const std::vector<double> coefficients{1, 1, 0};
  for (const int64_t leaves : {2, 5, 64, 65, 513}) {
    SumTree tree = tree_of(leaves);
    for (const int64_t only : {int64_t{0}, leaves / 2, leaves - 1}) {
      for (int64_t i = 0; i < leaves; ++i) put(tree, i, {0, 0, i % 2 == 0 ? 1.0 : 0.0});
      put(tree, only, {1e-300, 0, 1});
      tree.refresh_all();
      for (const double target : {0.0, 1e-300, 0.5, 1e300}) {
        EXPECT_EQ(tree.find(target, coefficients), only);
      }
      put(tree, only, {-1, 0, 1});  // a mass that rounding has made negative
      tree.refresh_all();
      EXPECT_EQ(tree.leaf(tree.find(0, coefficients))[2], 1);
    }
  }
}

// Cut off at both ends: targets that rounding has pushed past the total.
TEST(SumTree, ATargetBeyondTheTotalIsTheLastWithMass) {
  SumTree tree = tree_of(0);
  tree.grow(6);
  for (const int64_t i : {1, 2, 4}) put(tree, i, {0.1, 0.2, 1});
  put(tree, 5, {0, 0, 1});
  tree.refresh_all();
  EXPECT_EQ(tree.find(1e9, std::vector<double>{1, 1, 0}), 4);
}

TEST(SumTree, GrowsLeafByLeaf) {
  SumTree tree(3);
  EXPECT_EQ(tree.leaves(), 0);
  for (int64_t leaves = 1; leaves <= 130; ++leaves) {
    tree.grow(leaves);
    ASSERT_EQ(tree.leaves(), leaves);
    EXPECT_EQ(tree.leaf(leaves - 1)[0], 0);
    put(tree, leaves - 1, row_of(leaves, 0));
    const int64_t last = leaves - 1;
    tree.refresh(std::span(&last, 1));
    ASSERT_EQ(total_of(tree), naive_total(tree));
    for (int64_t i = 0; i < leaves; ++i) ASSERT_EQ(tree.leaf(i)[0], row_of(i + 1, 0)[0]);
  }
}

// Sums of numbers that round: the same whether changed one at a time, in any order, or at once.
TEST(SumTree, SumsHaveNoHistory) {
  constexpr int64_t kLeaves = 77;
  SumTree changed(2);
  changed.grow(kLeaves);
  SumTree fresh(2);
  fresh.grow(kLeaves);
  RandomStream stream(4, Purpose::kData);
  for (int64_t i = 0; i < 5000; ++i) {
    const int64_t leaf = i < 4900 ? stream.below(kLeaves) : i % kLeaves;
    const std::vector<double> row{std::exp(20 * stream.normal()), 1};
    put(changed, leaf, row);
    put(fresh, leaf, row);
    changed.refresh(std::span(&leaf, 1));
  }
  fresh.refresh_all();
  EXPECT_EQ(total_of(changed), total_of(fresh));
}

}  // namespace
}  // namespace hanse
