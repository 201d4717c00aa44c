#include "standardize.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

class Standardizer {
 public:
  explicit Standardizer(Dataset& dataset)
      : width_(static_cast<std::size_t>(dataset.sample_values())),
        values_(reinterpret_cast<float*>(dataset.features.data())),
        mean_(width_),
        deviation_(width_) {}

  // Mean and deviation of each column over the samples.
  void learn(std::span<const int64_t> samples);
  void apply(std::span<const int64_t> samples);

 private:
  std::span<float> sample(int64_t i) {
    return {values_ + static_cast<std::size_t>(i) * width_, width_};
  }
  bool is_constant(std::span<const int64_t> samples, std::size_t column);

  std::size_t width_;
  float* values_;                  // [samples, width]
  std::vector<double> mean_;       // [width]
  std::vector<double> deviation_;  // [width]; 1 for a constant column
};

// Compares the values: the rounded mean of equal ones may differ from them, and their deviation
// from it would be a tiny number and no zero.
bool Standardizer::is_constant(std::span<const int64_t> samples, std::size_t column) {
  return std::all_of(samples.begin(), samples.end(), [&](int64_t i) {
    return sample(i)[column] == sample(samples.front())[column];
  });
}

void Standardizer::learn(std::span<const int64_t> samples) {
  const auto n = static_cast<double>(samples.size());
  std::fill(mean_.begin(), mean_.end(), 0.0);
  for (const int64_t i : samples) {
    for (std::size_t d = 0; d < width_; ++d) mean_[d] += static_cast<double>(sample(i)[d]) / n;
  }
  std::fill(deviation_.begin(), deviation_.end(), 0.0);
  for (const int64_t i : samples) {
    for (std::size_t d = 0; d < width_; ++d) {
      const double offset = static_cast<double>(sample(i)[d]) - mean_[d];
      deviation_[d] += offset * offset / n;
    }
  }
  for (std::size_t d = 0; d < width_; ++d) {
    const bool constant = is_constant(samples, d);
    if (constant) mean_[d] = static_cast<double>(sample(samples.front())[d]);
    deviation_[d] = constant ? 1.0 : std::sqrt(deviation_[d]);
  }
}

void Standardizer::apply(std::span<const int64_t> samples) {
  for (const int64_t i : samples) {
    const auto row = sample(i);
    for (std::size_t d = 0; d < width_; ++d) {
      const double value = (static_cast<double>(row[d]) - mean_[d]) / deviation_[d];
      row[d] = static_cast<float>(value);
      if (!std::isfinite(row[d])) {
        throw InvalidArgument(
            fmt::format("feature {} of sample {} is {} deviations from the mean", d, i, value),
            "data.standardize", "is the value an outlier? correct it, or use none");
      }
    }
  }
}

std::span<const int64_t> samples_between(const Partition& partition, int64_t begin, int64_t end) {
  return std::span(partition.order)
      .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

void standardize_clients(Standardizer& standardizer, const Partition& partition) {
  for (std::size_t c = 0; c < partition.train_end.size(); ++c) {
    const int64_t begin = partition.offsets[c];
    standardizer.learn(samples_between(partition, begin, partition.train_end[c]));
    standardizer.apply(samples_between(partition, begin, partition.offsets[c + 1]));
  }
}

void standardize_all(Standardizer& standardizer, const Partition& partition) {
  std::vector<int64_t> training;
  for (std::size_t c = 0; c < partition.train_end.size(); ++c) {
    const auto own = samples_between(partition, partition.offsets[c], partition.train_end[c]);
    training.insert(training.end(), own.begin(), own.end());
  }
  standardizer.learn(training);
  standardizer.apply(partition.order);
}

}  // namespace

void standardize(Dataset& dataset, const Partition& partition, const std::string& scope) {
  if (scope == "none") return;
  if (scope != "client" && scope != "all") {
    throw InvalidArgument(fmt::format("unknown data.standardize '{}'", scope), "data.standardize",
                          "known: none, client, all");
  }
  if (dataset.storage != Storage::kFloat) {
    throw InvalidArgument("pixels stored as bytes cannot be standardized", "data.standardize",
                          "use none: they are scaled to [0, 1] already; only data.kind = csv can");
  }
  Standardizer standardizer(dataset);
  if (scope == "client") {
    standardize_clients(standardizer, partition);
  } else {
    standardize_all(standardizer, partition);
  }
}

}  // namespace hanse
