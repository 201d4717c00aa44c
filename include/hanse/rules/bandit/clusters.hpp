// Arms from a classification data set (Filippi et al. 2010, section 5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/rules/bandit/problem.hpp"

namespace hanse {

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
