// Where a client's samples stand in the federation's order.
#pragma once

#include <cstdint>

namespace hanse {

// A half-open range of samples in the federation's order.
struct SampleRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// One client's samples: training samples [begin, train_end), test samples [train_end, end).
struct ClientRanges {
  int64_t begin = 0;
  int64_t train_end = 0;
  int64_t end = 0;
};

}  // namespace hanse
