// A batch with its samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// The samples of a range, whose features have been copied to `features`.
inline Batch batch_of(const Federation& federation, SampleRange range, const float* features) {
  const auto labels = federation.labels();
  const auto targets = federation.targets();
  const int64_t first = range.begin * federation.label_form().values;
  return {.features = features,
          .labels = labels.empty() ? nullptr : labels.data() + first,
          .targets = targets.empty() ? nullptr : targets.data() + first,
          .rows = range.size(),
          .places = {.begin = range.begin}};
}

// Calls work(batch, its place in the range) with the samples of a range, in batches of at most
// `longest`, whose features lie in `features`.
template <class Work>
void for_each_batch(const Federation& federation, SampleRange range, int64_t longest,
                    std::vector<float>& features, Work work) {
  for (int64_t begin = range.begin; begin < range.end; begin += longest) {
    const SampleRange part{begin, std::min(begin + longest, range.end)};
    const auto values = static_cast<std::size_t>(part.size() * federation.sample_values());
    features.resize(std::max(features.size(), values));
    federation.copy(part, features.data());
    work(batch_of(federation, part, features.data()), part.begin - range.begin);
  }
}

// The samples of a batch in that range of its rows.
inline Batch part_of(const Batch& whole, SampleRange range, int64_t sample_values,
                     int64_t label_values = 1) {
  Batch part = whole;
  part.features += range.begin * sample_values;
  if (part.labels) part.labels += range.begin * label_values;
  if (part.targets) part.targets += range.begin * label_values;
  part.rows = range.size();
  part.places = whole.places.from(range.begin);
  return part;
}

// Samples copied together from where they stand in a federation; the memory is reused.
struct GatheredBatch {
  AlignedFloats features;       // [rows, values of a sample]
  std::vector<int32_t> labels;  // [rows, values of a label] or empty
  std::vector<float> targets;   // likewise
  int64_t rows = 0;
  BatchPlaces places;

  // Samples begin + order[i]; `next` are expected soon. What view() gave before is no longer valid,
  // and what it gives reads `order`.
  void gather(const Federation& federation, int64_t begin, std::span<const int32_t> order,
              ListedSamples next = {}) {
    rows = std::ssize(order);
    places = {begin, order.data()};
    features.resize(static_cast<std::size_t>(rows * federation.sample_values()));
    federation.gather(begin, order, features.data(), next);
    federation.gather_labels(begin, order, labels, targets);
  }

  // Call it when features were changed: they are no samples of the data any more.
  void forget_places() { places = {}; }

  Batch view() const {
    return {.features = features.data(),
            .labels = labels.empty() ? nullptr : labels.data(),
            .targets = targets.empty() ? nullptr : targets.data(),
            .rows = rows,
            .places = places};
  }
};

}  // namespace hanse
