// Areas under curves over thresholds, of scores in the order of their size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace hanse {

// Calls work(positives, negatives) for each group of equal scores, the smallest first, or false
// when a score is NaN. Cost: O(n log n).
template <class Score, class IsPositive, class Work>
bool for_equal_scores(std::span<const Score> scores, IsPositive is_positive, Work work) {
  if (std::ranges::any_of(scores, [](Score score) { return std::isnan(score); })) return false;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double positives = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      positives += is_positive(order[end]) ? 1 : 0;
    }
    work(positives, static_cast<double>(end - begin) - positives);
    begin = end;
  }
  return true;
}

// The chance that a positive scores above a negative, ties counted half; NaN: a score is, or there
// is one kind alone. Exact before its division, whose numerator is a whole number of halves.
template <class Score, class IsPositive>
double area_under_curve(std::span<const Score> scores, IsPositive is_positive) {
  double doubled = 0, below = 0, all = 0;  // negatives below
  const bool known = for_equal_scores(scores, is_positive, [&](double positives, double negatives) {
    doubled += positives * (2 * below + negatives);
    below += negatives;
    all += positives;
  });
  return known && all > 0 && below > 0 ? doubled / (2 * all * below)
                                       : std::numeric_limits<double>::quiet_NaN();
}

// sum_t (R_t - R_{t-1}) P_t, thresholds t falling; NaN: a score is, or there is no positive.
template <class IsPositive>
double area_under_precision(std::span<const double> scores, IsPositive is_positive) {
  std::vector<std::pair<double, double>> groups;
  double all = 0;
  const bool known = for_equal_scores(scores, is_positive, [&](double positives, double negatives) {
    groups.emplace_back(positives, negatives);
    all += positives;
  });
  if (!known || all == 0) return std::numeric_limits<double>::quiet_NaN();
  double area = 0, taken = 0, right = 0;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    right += group->first;
    taken += group->first + group->second;
    area += group->first * (right / taken);
  }
  return area / all;
}

}  // namespace hanse
