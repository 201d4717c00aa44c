#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/rules/bandit/problem.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

// Three heaps far apart: whatever the start, they are found.
struct Heaps {
  std::vector<double> points;  // [60, 2]
  std::vector<int64_t> heap_of;
};

Heaps three_heaps() {
  constexpr double kCentres[3][2] = {{0, 0}, {50, 10}, {-20, 70}};
  Heaps heaps;
  RandomStream stream(1, Purpose::kArms);
  for (int64_t s = 0; s < 60; ++s) {
    const int64_t heap = s % 7 % 3;  // sizes differ
    heaps.heap_of.push_back(heap);
    for (const double centre : kCentres[heap]) {
      heaps.points.push_back(centre + stream.uniform());
    }
  }
  return heaps;
}

TEST(Clusters, FindHeapsAndTheirMeans) {
  const Heaps heaps = three_heaps();
  const Clusters found = k_means(heaps.points, 2, 3, 2);
  for (int64_t heap = 0; heap < 3; ++heap) {
    double sum[2] = {0, 0}, count = 0;
    int64_t member = -1;
    for (std::size_t s = 0; s < 60; ++s) {
      if (heaps.heap_of[s] != heap) continue;
      if (member < 0) member = found.member_of[s];
      EXPECT_EQ(found.member_of[s], member);
      sum[0] += heaps.points[2 * s];
      sum[1] += heaps.points[2 * s + 1];
      ++count;
    }
    const auto at = static_cast<std::size_t>(2 * member);
    EXPECT_NEAR(found.centroids[at], sum[0] / count, 1e-9);
    EXPECT_NEAR(found.centroids[at + 1], sum[1] / count, 1e-9);
  }
}

// At a fixed point each sample is nearest to its own centroid, and the inertia is the sum of those
// squared distances; more restarts never leave more of it.
TEST(Clusters, EndAtAFixedPoint) {
  RandomStream stream(4, Purpose::kArms);
  std::vector<double> points(3 * 200);
  for (double& value : points) value = stream.normal();
  const Clusters found = k_means(points, 3, 9, 4);
  double inertia = 0;
  for (std::size_t s = 0; s < 200; ++s) {
    double own = 0, least = INFINITY;
    for (std::size_t c = 0; c < 9; ++c) {
      double distance = 0;
      for (std::size_t f = 0; f < 3; ++f) {
        const double apart = points[3 * s + f] - found.centroids[3 * c + f];
        distance += apart * apart;
      }
      least = std::min(least, distance);
      if (found.member_of[s] == static_cast<int64_t>(c)) own = distance;
    }
    EXPECT_NEAR(own, least, 1e-12);
    inertia += own;
  }
  EXPECT_NEAR(found.inertia, inertia, 1e-9);
  EXPECT_LE(found.inertia, k_means(points, 3, 9, 1).inertia);
}

// An arm: the centroid in [0, 1]^d and the share of rewarded samples. A feature's unit is nothing
// to it, nor a feature that never varies.
TEST(Clusters, MakeArmsOfSharesWhateverTheUnits) {
  const Heaps heaps = three_heaps();
  std::vector<double> scaled;
  std::vector<bool> positive;
  for (std::size_t s = 0; s < 60; ++s) {
    scaled.insert(scaled.end(), {1e4 * heaps.points[2 * s], 7, heaps.points[2 * s + 1] - 3});
    positive.push_back(heaps.heap_of[s] == 1 || (heaps.heap_of[s] == 2 && s % 2 == 0));
  }
  const Arms arms = cluster_arms(scaled, 3, positive, 3);
  EXPECT_EQ(arms.inputs, 3);
  auto values = arms.values;
  std::sort(values.begin(), values.end());
  const auto share = [&](int64_t heap) {
    double sum = 0, count = 0;
    for (std::size_t s = 0; s < 60; ++s) {
      if (heaps.heap_of[s] != heap) continue;
      sum += positive[s] ? 1 : 0;
      ++count;
    }
    return sum / count;
  };
  EXPECT_EQ(values, (std::vector<double>{0, share(2), 1}));
  for (std::size_t f : {0, 2}) {
    std::vector<double> column;
    for (std::size_t a = 0; a < 3; ++a) column.push_back(arms.points[3 * a + f]);
    EXPECT_EQ(*std::min_element(column.begin(), column.end()), 0);
    EXPECT_NEAR(*std::max_element(column.begin(), column.end()), 1, 1e-12);
  }
  for (std::size_t a = 0; a < 3; ++a) EXPECT_EQ(arms.points[3 * a + 1], 0);
}

TEST(Clusters, NeedDistinctSamples) {
  expect_error<InvalidArgument>(
      [] {
        k_means(std::vector<double>{1, 1, 1, 2, 2}, 1, 3, 1);
      },
      {"only 2 distinct samples for 3 clusters"});
}

}  // namespace
}  // namespace hanse
