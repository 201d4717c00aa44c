// How much each node's gradient counts for another (Omni-Fedge, ICASSP 2021).
#pragma once

#include <span>
#include <vector>

namespace hanse {

constexpr double kLeastShare = 1e-4;  // of a node

// A local minimum over {sum w = 1, kLeastShare <= w_j <= 1} of
//   sum_j losses[j] w_j^lambda - lambda sum_j log w_j,
// reached from `start` by steps that each lower it. w^lambda is concave for lambda < 1, so with
// losses above 1/(1 - lambda) there may be several minima: which one is found depends on `start`.
// By Newton steps on the diagonal Hessian, made positive, within the bounds. Cost: O(N) a step,
// some ten steps.
// REQUIRES: losses finite, 0 < lambda <= 1, `start` within the set, as long as `losses`.
std::vector<double> best_shares(std::span<const double> losses, double lambda,
                                std::vector<double> start);

}  // namespace hanse
