// The formula of SGD on one value, for the host and for devices.
#pragma once

#include "hanse/base/both_sides.hpp"

namespace hanse {

// g <- g + weight_decay w + pull + mu (w - theta);  v <- momentum v + g;  the direction is v, or
// g + momentum v (Nesterov's), or g without momentum
struct SgdRule {
  float weight_decay = 0;
  float momentum = 0;
  float mu = 0;
  bool nesterov = false;
};

// The gradient g (after clipping) with decay and pull; null: no pull, no proximal term.
HANSE_BOTH_SIDES inline float pulled_gradient(const SgdRule& rule, float g, float w,
                                              const float* pull, const float* theta) {
  if (rule.weight_decay != 0) g += rule.weight_decay * w;
  if (pull != nullptr) g += *pull;
  if (theta != nullptr) g += rule.mu * (w - *theta);
  return g;
}

// The direction against which w moves by such a gradient; v is overwritten.
HANSE_BOTH_SIDES inline float with_momentum(const SgdRule& rule, float g, float& v) {
  v *= rule.momentum;
  v += g;
  if (rule.nesterov) return g + rule.momentum * v;
  return v;
}

}  // namespace hanse
