// Noise that is correlated over rounds (matrix mechanisms), on a lattice.
//
// The sum X_t of round t goes out within y_t = sum_j n_j X_{t-j} + N_t, with noise N_t of one
// variance and whole numbers n_j = 2^11 c_j, on a lattice 2^11 times finer than that of X. What is
// then solved for X_t, Xhat = X + C^-1 N, has noise that mostly cancels over the rounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

constexpr int kCorrelationBits = 11;  // c_j are multiples of 2^-11

// The numerators n_j of the first `bands` coefficients c_j = prod_{k<=j} (2k-1)/(2k), which are the
// square root of prefix sums, rounded: exact up to j = 7. n_0 = 2^11; they never rise. Cost
// O(bands). REQUIRES: bands >= 1.
std::vector<int64_t> correlation_numerators(int64_t bands);

// The most by which the squared length of all noised combinations moves, in units of a client's
// squared length, when a client is in at most `participations` of `rounds` rounds, `separation` or
// more apart: |sum_{l<k} c shifted by l separation|^2 (arXiv 2405.13763, Theorem 2), which holds as
// c is neither negative nor rising. Exact in integers, then divided by 2^22. REQUIRES: separation
// >= 1, rounds >= 1.
double correlation_sensitivity_squared(std::span<const int64_t> numerators, int64_t rounds,
                                       int64_t separation, int64_t participations);

// y = sum_j n_j X_{t-j} modulo 2^64: adds n to y for one of the sums. Parts of a sum may be encoded
// apart and added.
void add_encoded(std::span<const int64_t> sum, int64_t numerator, std::span<int64_t> y);

// Xhat_t = 2^-11 y - sum_{j >= 1} c_j Xhat_{t-j}, in float64 and in this order. `before` has
// Xhat_{t-1}, Xhat_{t-2}, ..., as many as there were, and is not read beyond the bands.
void decode(std::span<const int64_t> y, std::span<const int64_t> numerators,
            std::span<const std::span<const double>> before, std::span<double> xhat);

// The binary tree over rounds 1, 2, ... (Kairouz et al. 2021): a node of level l is the noise of
// the 2^l rounds that end with `end`, a multiple of 2^l.
struct TreeNode {
  int64_t end = 1;
  int level = 0;
  bool operator==(const TreeNode&) const = default;
};

// The noise of round t is that of prefix t less that of prefix t - 1: one node comes, and those
// that it covers go.
struct TreeStep {
  TreeNode added;
  std::vector<TreeNode> removed;
};
// REQUIRES: t >= 1.
TreeStep tree_step(int64_t t);

// The nodes that a round is in when there are T rounds: floor(log2 T) + 1 at most, the squared
// sensitivity of a client who takes part once. REQUIRES: T >= 1.
int64_t tree_sensitivity_squared(int64_t rounds);

}  // namespace hanse
