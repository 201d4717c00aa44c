// The steps of a client's optimizer on one value, torch.optim's rules, for the host and for
// devices.
#pragma once

#include <cmath>
#include <cstdint>

#include "hanse/base/both_sides.hpp"
#include "hanse/model/sgd_rule.hpp"

namespace hanse {

enum class StepRule : int32_t { kSgd, kMomentum, kAdam, kAdagrad, kRmsprop, kRmspropMomentum };

// Rows that a rule keeps beside the model: velocity or moments.
constexpr int64_t moments_of(StepRule rule) {
  if (rule == StepRule::kSgd) return 0;
  return rule == StepRule::kAdam || rule == StepRule::kRmspropMomentum ? 2 : 1;
}

// What is the same in all steps; rest = 1 - beta.
struct StepNumbers {
  StepRule kind = StepRule::kSgd;
  SgdRule rule = {};  // decay, pull and momentum
  float beta1 = 0, rest1 = 0, beta2 = 0, rest2 = 0;
  float eps = 0;
};

// What a client's step has of its own.
struct StepSize {
  float rate = 0;    // lr, over 1 - beta1^t (adam, adamw)
  float scale = 1;   // of the gradient: clipping, PropFair's slope
  float keep = 1;    // share of w that decoupled decay leaves
  float root = 1;    // 1 / sqrt(1 - beta2^t) (adam, adamw), else 1
  int64_t part = 0;  // of the values that move, where a cohort moves them in parts
};

// The direction that a value goes against, from its gradient; overwrites the moments.
template <StepRule kRule>
HANSE_BOTH_SIDES inline float direction(const StepNumbers& s, float root, float g, float& first,
                                        float& second) {
  if constexpr (kRule == StepRule::kSgd) {
    return g;
  } else if constexpr (kRule == StepRule::kMomentum) {
    return with_momentum(s.rule, g, first);
  } else if constexpr (kRule == StepRule::kAdam) {
    first = s.beta1 * first + s.rest1 * g;
    second = s.beta2 * second + s.rest2 * g * g;
    return first / (sqrtf(second) * root + s.eps);
  } else if constexpr (kRule == StepRule::kAdagrad) {
    first += g * g;
    return g / (sqrtf(first) + s.eps);
  } else {
    first = s.beta2 * first + s.rest2 * g * g;
    const float step = g / (sqrtf(first) + s.eps);
    if constexpr (kRule == StepRule::kRmsprop) return step;
    second = s.rule.momentum * second + step;
    return second;
  }
}

}  // namespace hanse
