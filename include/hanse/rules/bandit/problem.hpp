// Arms of a bandit: points of a test function, or clusters of a classification data set (Filippi et
// al. 2010, section 5).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// Arms of a bandit: a learner's knowledge of each, and its mean reward.
struct Arms {
  int64_t inputs = 0;
  std::vector<double> points;  // [arms, inputs]
  std::vector<double> values;  // [arms]

  int64_t size() const { return static_cast<int64_t>(values.size()); }
};

// Where arms come from: a test function, a file, or clusters of samples.
enum class ArmSource { kHartmann6, kCosine8, kBranin, kAckley, kRastrigin, kFile, kClusters };
constexpr auto choices_of(ArmSource) {
  return std::array{"hartmann-6", "cosine-8", "branin", "ackley", "rastrigin", "file", "clusters"};
}

// A test function on a box. Its arguments are points of [low, 1]^inputs; where the function's usual
// domain is another box, they are stretched to it.
struct TestFunction {
  ArmSource source;
  int64_t inputs;  // 0: any number
  double low;      // of every coordinate of a point
  double (*value)(std::span<const double> point);
};

// By ArmSource: hartmann-6 (with P in units of 1e-4, without which it is 0 on the cube), cosine-8,
// branin, ackley, rastrigin: as their authors print them, so that all but cosine-8 are to be
// minimised.
const std::vector<TestFunction>& test_functions();

// `arms` uniform points of the function's box; the mean reward is the function, or minus the
// function when `negate` is set. `inputs` counts for functions of any number of arguments. A pure
// function of its arguments: stream (seed, kArms). Throws InvalidArgument for fewer than two arms.
// REQUIRES: one of test_functions().
Arms draw_arms(ArmSource function, int64_t arms, int64_t inputs, bool negate, uint64_t seed);

struct Clusters {
  std::vector<double> centroids;   // [k, features]
  std::vector<int64_t> member_of;  // [samples]
  double inertia = 0;              // sum of squared distances to the centroids
};

// Lloyd's k-means from k-means++ starts (Arthur and Vassilvitskii 2007), the best of `restarts`; at
// most 100 steps each. `points` [samples, features]. A cluster that loses all its samples keeps its
// centroid. A pure function of its arguments: stream (0, kArms, restart).
// Cost: 2 samples k features flops a step. Throws InvalidArgument for fewer distinct points than k.
// REQUIRES: k >= 1, restarts >= 1.
Clusters k_means(std::span<const double> points, int64_t features, int64_t k, int64_t restarts);

// Standardises the features (a constant one becomes 0), clusters the samples into `arms`, 10
// restarts, and makes each cluster an arm: its point is the centroid, scaled so that each feature
// of all centroids spans [0, 1], its value the share of its samples that are `positive`.
Arms cluster_arms(std::span<const double> points, int64_t features,
                  const std::vector<bool>& positive, int64_t arms);

}  // namespace hanse
