// Features centred and scaled to unit deviation.
#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

namespace {

using Samples = std::span<const int64_t>;

struct Features {
  explicit Features(Dataset& dataset)
      : values(reinterpret_cast<float*>(dataset.features.data())),
        width(static_cast<std::size_t>(dataset.sample_values())),
        precise(width) {
    for (const PreciseFeature& feature : dataset.precise) {
      precise[to_index(feature.feature)] = feature.values.data();
    }
  }

  // The value as it was read. REQUIRES: it was not set yet.
  double at(int64_t i, std::size_t d) const {
    return precise[d] ? precise[d][i] : static_cast<double>(sample(i)[d]);
  }

  std::span<float> sample(int64_t i) const { return {values + to_index(i) * width, width}; }

  float* values;  // [samples, width]
  std::size_t width;
  std::vector<const double*> precise;  // [width], each [samples]; null: float32 holds them
};

struct Moments {
  // [width]: the origin of values and mean, one of the precise values, else 0: large numbers next
  // to each other have exact differences, but no exact sums.
  std::vector<double> origin;
  std::vector<double> mean;       // [width]
  std::vector<double> deviation;  // [width]; 1 for a constant column
};

// Moments of each column over the samples.
Moments moments(const Features& features, Samples samples) {
  const std::size_t width = features.width;
  const auto n = static_cast<double>(samples.size());
  Moments result{std::vector<double>(width), std::vector<double>(width),
                 std::vector<double>(width)};
  auto& [origin, mean, deviation] = result;
  for (std::size_t d = 0; d < width; ++d) {
    if (features.precise[d]) origin[d] = features.at(samples.front(), d);
  }
  for (const int64_t i : samples) {
    for (std::size_t d = 0; d < width; ++d) mean[d] += (features.at(i, d) - origin[d]) / n;
  }
  for (const int64_t i : samples) {
    for (std::size_t d = 0; d < width; ++d) {
      const double offset = features.at(i, d) - origin[d] - mean[d];
      deviation[d] += offset * offset / n;
    }
  }
  for (std::size_t d = 0; d < width; ++d) {
    // Compares the values: the rounded mean of equal ones may differ from them, and their deviation
    // would be a tiny number instead of zero.
    const double first = features.at(samples.front(), d);
    const bool constant = std::all_of(samples.begin(), samples.end(),
                                      [&](int64_t i) { return features.at(i, d) == first; });
    if (constant) mean[d] = first - origin[d];
    deviation[d] = constant ? 1.0 : std::sqrt(deviation[d]);
  }
  return result;
}

void apply(const Moments& moments, const Features& features, Samples samples) {
  for (const int64_t i : samples) {
    const auto row = features.sample(i);
    for (std::size_t d = 0; d < row.size(); ++d) {
      const double value =
          (features.at(i, d) - moments.origin[d] - moments.mean[d]) / moments.deviation[d];
      row[d] = static_cast<float>(value);
      if (!std::isfinite(row[d])) {
        throw InvalidArgument(
            fmt::format("feature {} of sample {} is {} deviations from the mean", d, i, value),
            "data.standardize", "is the value an outlier? correct it, or use none");
      }
    }
  }
}

}  // namespace

void standardize(Dataset& dataset, const Partition& partition, Standardize scope) {
  if (scope == Standardize::kNone) return;
  if (dataset.storage != Storage::kFloat) {
    throw InvalidArgument("pixels stored as bytes cannot be standardized", "data.standardize",
                          "use none: they are scaled to [0, 1] already; only data.kind = csv can");
  }
  const Features features(dataset);
  std::vector<int64_t> training;  // of all clients
  for (std::size_t c = 0; c < partition.train_end.size(); ++c) {
    const auto begin = partition.order.begin() + partition.offsets[c];
    const Samples train(begin, partition.order.begin() + partition.train_end[c]);
    training.insert(training.end(), train.begin(), train.end());
    if (scope == Standardize::kAll) continue;
    apply(moments(features, train), features,
          Samples(begin, partition.order.begin() + partition.offsets[c + 1]));
  }
  if (scope == Standardize::kAll) apply(moments(features, training), features, partition.order);
}

}  // namespace hanse
