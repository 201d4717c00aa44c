// How each client's samples become a stream.
#pragma once

#include <array>
#include <cstdint>

namespace hanse {

// Drift of the streams over time:
//   none:   a client's samples in random order;
//   labels: sorted by label (regression: target), so that classes come one after another;
//   swap:   in random order; after half of the rounds every node receives the next node's stream.
enum class Drift { kNone, kLabels, kSwap };
constexpr auto choices_of(Drift) { return std::array{"none", "labels", "swap"}; }

struct StreamOptions {
  int64_t horizon = 1;  // batches a client's samples are cut into
  int64_t passes = 1;   // over the stream, each in another order
  Drift drift = Drift::kNone;
};

}  // namespace hanse
