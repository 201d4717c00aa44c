// What samples are mixtures of.
#pragma once

#include <cstdint>

namespace hanse {

// Of a batch whose samples are x = share x_own + (1 - share) x_other: the others' labels.
struct MixedLabels {
  const int32_t* labels = nullptr;  // as in Batch
  const float* targets = nullptr;
  double share = 1;
};

}  // namespace hanse
