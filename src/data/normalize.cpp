#include "normalize.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/data/partition.hpp"
#include "hanse/rules/statistics/tally.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "data.normalize";

ChannelScale scale_of(double mean, double deviation) {
  return {.mean = static_cast<float>(mean), .share = static_cast<float>(1 / deviation)};
}

double number(const std::string& text) {
  try {
    return parse_number(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(error.what(), kKey);
  }
}

// Calls f(pixel values of a channel, channel) for each channel of each sample.
template <class F>
void each_plane(const std::vector<int64_t>& shape, const EachSample& each_sample, F f) {
  const auto plane = static_cast<std::size_t>(shape[1] * shape[2]);
  each_sample([&](const float* image) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(shape[0]); ++c) {
      f(std::span<const float>(image + c * plane, plane), c);
    }
  });
}

constexpr double kRoundingRoom = 1 + 1e-9;  // sums of a plane are rounded

// The means of f(value, channel) over each channel's values, |f| <= bounds [channels], by exact
// sums of the samples' own: they do not depend on the order of the samples.
template <class F>
std::vector<double> means_of(const std::vector<int64_t>& shape, const EachSample& each_sample,
                             std::vector<double> bounds, F f) {
  const auto plane = static_cast<double>(shape[1] * shape[2]);
  for (double& bound : bounds) bound *= plane * kRoundingRoom;
  Tally sums(bounds);
  double count = 0;
  each_plane(shape, each_sample, [&](std::span<const float> values, std::size_t c) {
    if (c == 0) sums.next_sample();
    if (c == 0) count += plane;
    double sum = 0;
    for (const float value : values) sum += f(value, c);
    sums.add(c, sum);
  });
  std::vector<double> means = sums.values();
  for (double& mean : means) mean /= count;
  return means;
}

std::vector<ChannelScale> measured(const std::vector<int64_t>& shape,
                                   const EachSample& each_sample) {
  std::vector<double> most(to_index(shape[0]));
  each_plane(shape, each_sample, [&](std::span<const float> values, std::size_t c) {
    for (const float value : values) most[c] = std::max(most[c], std::abs(double{value}));
  });
  const auto means =
      means_of(shape, each_sample, most, [](float x, std::size_t) { return double{x}; });
  for (std::size_t c = 0; c < means.size(); ++c) {
    most[c] = (most[c] + std::abs(means[c])) * (most[c] + std::abs(means[c])) * kRoundingRoom;
  }
  const auto variances = means_of(shape, each_sample, most, [&](float x, std::size_t c) {
    const double off = double{x} - means[c];
    return off * off;
  });
  std::vector<ChannelScale> scales;
  for (std::size_t c = 0; c < means.size(); ++c) {
    const double deviation = std::sqrt(variances[c]);
    scales.push_back(scale_of(means[c], deviation > 1e-9 ? deviation : 1));
  }
  return scales;
}

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

// The scale of each column, [width], by its moments over the samples; that of a constant one has
// the deviation 1.
std::vector<ValueScale> scales_over(const Features& features, Samples samples) {
  const std::size_t width = features.width;
  const auto n = static_cast<double>(samples.size());
  std::vector<ValueScale> scales(width, {.deviation = 0});
  for (std::size_t d = 0; d < width; ++d) {
    if (features.precise[d]) scales[d].origin = features.at(samples.front(), d);
  }
  for (const int64_t i : samples) {
    for (std::size_t d = 0; d < width; ++d) {
      scales[d].mean += (features.at(i, d) - scales[d].origin) / n;
    }
  }
  for (const int64_t i : samples) {
    for (std::size_t d = 0; d < width; ++d) {
      const double offset = features.at(i, d) - scales[d].origin - scales[d].mean;
      scales[d].deviation += offset * offset / n;
    }
  }
  for (std::size_t d = 0; d < width; ++d) {
    // Compares the values: the rounded mean of equal ones may differ from them, and their deviation
    // would be a tiny number instead of zero.
    const double first = features.at(samples.front(), d);
    const bool constant = std::all_of(samples.begin(), samples.end(),
                                      [&](int64_t i) { return features.at(i, d) == first; });
    if (constant) scales[d].mean = first - scales[d].origin;
    scales[d].deviation = constant ? 1.0 : std::sqrt(scales[d].deviation);
  }
  return scales;
}

// Least and largest values of the columns [width], and what their sums are made about: the least
// one, whose difference from another is exact where numbers are large and close.
struct Extremes {
  std::vector<double> least, most;
};

Extremes extremes_of(const Features& features, Samples samples) {
  Extremes found;
  for (std::size_t d = 0; d < features.width; ++d) {
    found.least.push_back(features.at(samples.front(), d));
  }
  found.most = found.least;
  for (const int64_t i : samples) {
    for (std::size_t d = 0; d < features.width; ++d) {
      const double value = features.at(i, d);
      found.least[d] = std::min(found.least[d], value);
      found.most[d] = std::max(found.most[d], value);
    }
  }
  return found;
}

// The sums over the samples of f(value, column), |f| <= bounds [width]: exact sums of rounded terms
// (Tally), which do not depend on the order of the samples.
template <class F>
std::vector<double> exact_sums(const Features& features, Samples samples,
                               std::span<const double> bounds, F f) {
  Tally sums(bounds);
  for (const int64_t i : samples) {
    sums.next_sample();
    for (std::size_t d = 0; d < features.width; ++d) sums.add(d, f(features.at(i, d), d));
  }
  return sums.values();
}

// The same as scales_over(), whatever the order of the samples:
//   mean = least + T(x - least) / n,  deviation^2 = T((x - mean)^2) / n,  T an exact sum.
std::vector<ValueScale> pooled_scales(const Features& features, Samples samples) {
  const auto n = static_cast<double>(samples.size());
  const Extremes extremes = extremes_of(features, samples);
  const std::vector<double>& least = extremes.least;  // no binding: clang captures none
  const std::vector<double>& most = extremes.most;
  std::vector<ValueScale> scales(features.width);
  std::vector<double> bounds(features.width);
  for (std::size_t d = 0; d < bounds.size(); ++d) bounds[d] = most[d] - least[d];
  const auto sums =
      exact_sums(features, samples, bounds, [&](double x, std::size_t d) { return x - least[d]; });
  for (std::size_t d = 0; d < bounds.size(); ++d) {
    scales[d].origin = features.precise[d] ? least[d] : 0;
    scales[d].mean = sums[d] / n + (features.precise[d] ? 0 : least[d]);
    const double reach = std::max(std::abs(most[d] - scales[d].origin - scales[d].mean),
                                  std::abs(least[d] - scales[d].origin - scales[d].mean));
    bounds[d] = reach * reach;
  }
  const auto squares = exact_sums(features, samples, bounds, [&](double x, std::size_t d) {
    const double off = x - scales[d].origin - scales[d].mean;
    return off * off;
  });
  for (std::size_t d = 0; d < bounds.size(); ++d) {
    if (least[d] != most[d]) scales[d].deviation = std::sqrt(squares[d] / n);
  }
  return scales;
}

void apply(std::span<const ValueScale> scales, const Features& features, Samples samples) {
  for (const int64_t i : samples) {
    const auto row = features.sample(i);
    for (std::size_t d = 0; d < row.size(); ++d) {
      const double value = scales[d].of(features.at(i, d));
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

std::vector<ChannelScale> channel_scales(const std::string& text, const std::vector<int64_t>& shape,
                                         const EachSample& each_sample) {
  if (text == "none") return {};
  if (shape.size() != 3) {
    throw InvalidArgument(
        fmt::format("samples of shape {{{}}} are no images", fmt::join(shape, ", ")), kKey,
        "images have {channels, height, width}; data.standardize is for tables");
  }
  if (text == "all") return measured(shape, each_sample);
  const auto numbers = split_list(text);
  const auto channels = static_cast<std::size_t>(shape[0]);
  if (numbers.size() != 2 * channels) {
    throw InvalidArgument(fmt::format("'{}' has {} numbers for images of {} channel{}", text,
                                      numbers.size(), channels, channels == 1 ? "" : "s"),
                          kKey, "none, all, or the channels' means and then their deviations");
  }
  std::vector<ChannelScale> scales;
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = number(numbers[c]), deviation = number(numbers[channels + c]);
    if (!(deviation > 0)) {
      throw InvalidArgument("the deviation " + numbers[channels + c] + " is not positive", kKey);
    }
    scales.push_back(scale_of(mean, deviation));
  }
  return scales;
}

void standardize(Dataset& dataset, const Partition& partition, const std::vector<char>& held_out,
                 Standardize scope) {
  if (scope == Standardize::kNone) return;
  if (dataset.storage != Storage::kFloat) {
    throw InvalidArgument("pixels stored as bytes cannot be standardized", "data.standardize",
                          "use none: they are scaled to [0, 1] already; only data.kind = csv can");
  }
  const Features features(dataset);
  FeatureRecord& record = dataset.record;
  if (record.values.empty()) record.values.resize(features.width);
  if (scope == Standardize::kClient) record.preparations.resize(to_index(partition.clients()));
  std::vector<int64_t> training;  // of all clients that are not held out
  for (std::size_t c = 0; c < partition.train_end.size(); ++c) {
    const auto begin = partition.order.begin() + partition.offsets[c];
    const Samples train(begin, partition.order.begin() + partition.train_end[c]);
    if (!held_out[c]) training.insert(training.end(), train.begin(), train.end());
    if (scope == Standardize::kAll) continue;
    auto& scales = record.preparations[c].scales = scales_over(features, train);
    apply(scales, features, Samples(begin, partition.order.begin() + partition.offsets[c + 1]));
  }
  if (scope == Standardize::kClient) return;
  auto& scales = record.preparations.front().scales = pooled_scales(features, training);
  apply(scales, features, partition.order);
}

}  // namespace hanse
