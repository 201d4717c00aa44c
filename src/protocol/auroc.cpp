#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "hanse/protocol/evaluation.hpp"

namespace hanse {

namespace {

// Positions by rising score.
std::vector<std::size_t> ascending(std::span<const float> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  return order;
}

// Twice the sum of the ranks (from 1) of class 1: a whole number even with shared ranks, so exact.
double doubled_rank_sum(std::span<const float> scores, std::span<const int32_t> labels) {
  const auto order = ascending(scores);
  double sum = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double positives = 0;  // among equal scores
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) {
      positives += labels[order[end]] == 1 ? 1 : 0;
    }
    sum += positives * static_cast<double>(begin + 1 + end);  // first rank + last rank
    begin = end;
  }
  return sum;
}

}  // namespace

double area_under_roc(std::span<const float> scores, std::span<const int32_t> labels) {
  const bool has_nan =
      std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); });
  const auto n_1 = static_cast<double>(std::count(labels.begin(), labels.end(), 1));
  const double n_0 = static_cast<double>(labels.size()) - n_1;
  if (has_nan || n_1 == 0 || n_0 == 0) return std::numeric_limits<double>::quiet_NaN();
  return (doubled_rank_sum(scores, labels) - n_1 * (n_1 + 1)) / (2 * n_1 * n_0);
}

}  // namespace hanse
