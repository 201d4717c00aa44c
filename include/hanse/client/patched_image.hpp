// The mark by which a backdoor is opened, and what attackers want samples to be taken for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hanse/client/options.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// Images {channels, height, width} whose lower right corner of `side` pixels is 1 in each channel.
struct PatchedImage {
  int64_t channels = 0, height = 0, width = 0, side = 0;

  void mark(float* image) const {
    for (int64_t row = 0; row < channels * height; ++row) {
      if (row % height < height - side) continue;
      std::fill_n(image + row * width + width - side, side, 1.0F);
    }
  }
};

// Throws InvalidArgument: samples that are no images, or too small for options.patch.
PatchedImage patched_image(const PoisonOptions& options, const Federation& federation);

// What attackers want a sample of class `label` to be taken for, of `classes` in all; `label`
// itself: nothing.
inline int64_t wanted_class(const PoisonOptions& options, int64_t label, int64_t classes) {
  if (options.kind == Poison::kBackdoor) return std::max<int64_t>(options.target, 0);
  if (options.target < 0) return classes - 1 - label;
  return label == options.source ? options.target : label;
}

// Throws InvalidArgument: the data have no one class a sample, or not so many classes.
void check_poison_classes(const PoisonOptions& options, const LabelForm& labels);

}  // namespace hanse
