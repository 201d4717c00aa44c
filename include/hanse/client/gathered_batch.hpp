// A batch with its samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// Samples copied together from where they stand in a federation; the memory is reused.
struct GatheredBatch {
  AlignedFloats features;       // [rows, values of a sample]
  std::vector<int32_t> labels;  // [rows] or empty
  std::vector<float> targets;   // [rows] or empty
  int64_t rows = 0;

  // Samples begin + order[i]. What view() gave before is no longer valid.
  void gather(const Federation& federation, int64_t begin, std::span<const int32_t> order);

  Batch view() const {
    return {.features = features.data(),
            .labels = labels.empty() ? nullptr : labels.data(),
            .targets = targets.empty() ? nullptr : targets.data(),
            .rows = rows};
  }
};

}  // namespace hanse
