// What drawing more clients than count does to who counts, in closed form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/rules/clock/ticks.hpp"

namespace hanse {

// The probability that each of M clients counts in a round which draws n of them uniformly without
// replacement and takes the K that arrive first: with r_i = #{j : (T_j, j) < (T_i, i)},
//   pi_i = n/M sum_{j<K} C(r_i, j) C(M-1-r_i, n-1-j) / C(M-1, n-1).
// The sum over clients is K. `durations` [M]. Sound for any M: every term is the hypergeometric
// probability, by recurrence from the one before in r; the relative error is below 1e-12 M. Cost:
// O(M log M). REQUIRES: 1 <= K <= n <= M.
std::vector<double> inclusion_probabilities(std::span<const Ticks> durations, int64_t n, int64_t k);

struct Unreachable {
  int64_t clients = 0;  // that never count
  double share = 0;     // sum of their lambda
};
Unreachable unreachable(std::span<const double> probabilities, std::span<const double> lambda);

}  // namespace hanse
