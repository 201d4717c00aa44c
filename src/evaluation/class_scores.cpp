#include "class_scores.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/evaluation/softmax.hpp"
#include "ranked_scores.hpp"

namespace hanse {

namespace {

constexpr int64_t kBins = 15;

// Calls work(label, probabilities) for each sample, in order.
template <class Work>
void for_each_sample(const ClassScores& samples, Work work) {
  std::vector<double> p(to_index(samples.classes));
  for (int64_t i = 0; i < std::ssize(samples.labels); ++i) {
    samples.probabilities(i, p);
    work(samples.labels[to_index(i)], std::span<const double>(p));
  }
}

double squared(double x) { return x * x; }

// What orders all samples by the probability of class k: of two classes z, which has more digits.
std::vector<double> column_of(const ClassScores& samples, int64_t k) {
  if (samples.classes == 2) return {samples.scores.begin(), samples.scores.end()};
  std::vector<double> column;
  column.reserve(samples.labels.size());
  for_each_sample(samples,
                  [&](int32_t, std::span<const double> p) { column.push_back(p[to_index(k)]); });
  return column;
}

// The mean of f(k) over the classes that are there, weighed by weight(number of samples).
template <class Of, class Weight>
ScoreSum mean_of_classes(const ClassScores& samples, Of of, Weight weight) {
  std::vector<int64_t> counts(to_index(samples.classes));
  for (const int32_t label : samples.labels) ++counts[to_index(label)];
  ScoreSum sum;
  for (int64_t k = 0; k < samples.classes; ++k) {
    const int64_t count = counts[to_index(k)];
    if (count == 0) continue;
    sum += {weight(count) * of(k), weight(count)};
  }
  return {sum.part / sum.whole, 1};
}

template <class Weight>
ScoreSum auroc_of_classes(const ClassScores& samples, Weight weight) {
  const auto one_against_rest = [&](int64_t k) {
    return area_under_curve<double>(column_of(samples, k),
                                    [&](std::size_t i) { return samples.labels[i] == k; });
  };
  const std::span<const int32_t> labels = samples.labels;
  if (labels.empty() || std::ranges::count(labels, labels[0]) == std::ssize(labels)) return {};
  return mean_of_classes(samples, one_against_rest, weight);
}

}  // namespace

double logistic(double z) { return 1 / (1 + std::exp(-z)); }

void ClassScores::probabilities(int64_t i, std::span<double> p) const {
  if (classes > 2) return softmax(scores.subspan(to_index(i * classes), to_index(classes)), p);
  p[1] = logistic(static_cast<double>(scores[to_index(i)]));
  p[0] = 1 - p[1];
}

ScoreSum brier(const ClassScores& samples) {
  ScoreSum sum;
  for_each_sample(samples, [&](int32_t label, std::span<const double> p) {
    double score = 0;
    for (std::size_t k = p.size() == 2 ? 1 : 0; k < p.size(); ++k) {
      score += squared(p[k] - (to_index(label) == k ? 1 : 0));
    }
    sum += {score, 1};
  });
  return sum;
}

ScoreSum calibration_error(const ClassScores& samples) {
  struct Bin {
    double right = 0, confidence = 0;
  };
  std::array<Bin, kBins> bins;
  bool has_nan = false;
  for_each_sample(samples, [&](int32_t label, std::span<const double> p) {
    const auto best = std::ranges::max_element(p);
    if (std::isnan(*best)) {
      has_nan = true;
      return;
    }
    const auto bin = static_cast<int64_t>(std::ceil(*best * kBins)) - 1;
    Bin& own = bins[to_index(std::clamp<int64_t>(bin, 0, kBins - 1))];
    own.confidence += *best;
    own.right += best - p.begin() == label ? 1 : 0;
  });
  if (has_nan) return {std::nan(""), 1};
  const auto n = static_cast<double>(samples.labels.size());
  double error = 0;
  for (const Bin& bin : bins) error += std::abs(bin.right - bin.confidence);
  return {error / n, 1};  // 0 of 0: NaN
}

ScoreSum macro_auroc(const ClassScores& samples) {
  return auroc_of_classes(samples, [](int64_t) { return 1.0; });
}

ScoreSum prevalence_auroc(const ClassScores& samples) {
  return auroc_of_classes(samples, [](int64_t count) { return static_cast<double>(count); });
}

ScoreSum average_precision_of_classes(const ClassScores& samples) {
  const auto of = [&](int64_t k) {
    return area_under_precision(column_of(samples, k),
                                [&](std::size_t i) { return samples.labels[i] == k; });
  };
  if (samples.classes == 2) return {of(1), 1};
  return mean_of_classes(samples, of, [](int64_t) { return 1.0; });
}

}  // namespace hanse
