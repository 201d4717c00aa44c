// What losses may compare a model with.
#pragma once

#include <span>

namespace hanse {

// What a client has before its first step.
struct Received {
  std::span<const float> row;        // [P] the row from the server
  std::span<const float> last = {};  // [P] the row that its last training left; empty: none
  // [classes, representation_width() + 1] means of representations, each with 1 behind it, or 0
  // where it is not known yet; empty: none.
  std::span<const float> class_means = {};
};

}  // namespace hanse
