// How the server moves one entry of the model along the mixed update, for the host and for devices:
// the optimizers whose entries do not depend on each other.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "hanse/base/both_sides.hpp"

namespace hanse {

enum class EntryRule : int64_t { kSgd, kMomentum, kAdagrad, kAdam, kYogi };

struct EntryRates {
  float rate = 1, beta = 0, beta2 = 0, tau = 0;
};

// protocol/server_optimizer.hpp has the formulas. u: the update; first: velocity or first moment;
// second: second moment.
template <EntryRule kRule>
HANSE_BOTH_SIDES inline void step_entry(const EntryRates& rates, float u, float& theta,
                                        float& first, float& second) {
  if constexpr (kRule == EntryRule::kSgd) {
    theta += rates.rate * u;
  } else if constexpr (kRule == EntryRule::kMomentum) {
    first = rates.beta * first + u;
    theta += rates.rate * first;
  } else {
    first = rates.beta * first + (1 - rates.beta) * u;
    if constexpr (kRule == EntryRule::kAdagrad) {
      second = second + u * u;
    } else if constexpr (kRule == EntryRule::kAdam) {
      second = rates.beta2 * second + (1 - rates.beta2) * u * u;
    } else {
      const float difference = second - u * u;
      const float sign = static_cast<float>((difference > 0) - (difference < 0));
      second = second - (1 - rates.beta2) * u * u * sign;
    }
    theta += rates.rate * first / (sqrtf(second) + rates.tau);
  }
}

// A round's step, as all ranks know it.
struct EntryStep {
  EntryRule rule = EntryRule::kSgd;
  EntryRates rates = {};
  float scale = 1;  // factor on the update before the step
  // Rows that the rule keeps across rounds: none, the velocity, or both moments.
  constexpr int64_t states() const {
    return rule == EntryRule::kSgd ? 0 : rule == EntryRule::kMomentum ? 1 : 2;
  }
};

// The rows of those states, [P] each, in the memory of rank 0; empty elsewhere.
using EntryStates = std::array<std::span<float>, 2>;

}  // namespace hanse
