// The step of SGD for all clients of a cohort, item by item.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"
#include "hanse/model/sgd_rule.hpp"

namespace hanse {

// An item is a parameter, of every client.
struct DescentWork {
  SgdRule rule;
  const float* gradient;  // [C, n]
  const float* anchor;  // of the proximal term, of each client `anchor_stride` further; null: none
  const float* pulls;   // [C, n]; null: none
  const float* rates;   // [C]; 0: the client's parameters stay, whatever the gradient is
  float* velocity;      // [C, n], with momentum, else null
  float* rows;          // [C, n]
  int64_t clients, n;
  int64_t anchor_stride;  // n, or 0 where all clients have the same one

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    for (int64_t c = 0; c < clients; ++c) {
      const int64_t at = c * n + i;
      const float* origin = anchor != nullptr ? anchor + c * anchor_stride + i : nullptr;
      const float* pull = pulls != nullptr ? pulls + at : nullptr;
      float g = pulled_gradient(rule, gradient[at], rows[at], pull, origin);
      if (velocity != nullptr) g = with_momentum(rule, g, velocity[at]);
      if (rates[c] > 0) rows[at] -= rates[c] * g;
    }
  }
};

}  // namespace hanse
