// The labels of samples that are mixtures of two.
#pragma once

#include <cstdint>

namespace hanse {

// A batch's samples are x = share x_own + (1 - share) x_other: the labels of the others.
struct MixedLabels {
  const int32_t* labels = nullptr;  // as in Batch
  const float* targets = nullptr;
  double share = 1;
};

}  // namespace hanse
