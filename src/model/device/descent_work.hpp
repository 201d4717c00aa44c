// The step of SGD for all clients of a cohort, item by item.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"
#include "hanse/model/sgd_rule.hpp"

namespace hanse {

// Where steps start. An item is a parameter, of every client.
struct StartWork {
  const float* theta;  // [n]
  float* rows;         // of each client, `stride` further, [n]
  float* velocity;     // likewise; null: no momentum
  double* losses;      // [C]
  int64_t clients, stride;

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    const float value = theta[i];
    for (int64_t c = 0; c < clients; ++c) rows[c * stride + i] = value;
    for (int64_t c = 0; velocity != nullptr && c < clients; ++c) velocity[c * stride + i] = 0;
    for (int64_t c = 0; i == 0 && c < clients; ++c) losses[c] = 0;
  }
};

// An item is a parameter, of every client. It reads what some clients have before it writes any, so
// that several reads are under way.
struct DescentWork {
  static constexpr int kAtOnce = 4;

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
    for (int64_t first = 0; first < clients; first += kAtOnce) {
      float gradients[kAtOnce], weights[kAtOnce], speeds[kAtOnce], own_rates[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t c = first + k, at = c * n + i;
        const bool is_there = c < clients;
        gradients[k] = is_there ? gradient[at] : 0;
        weights[k] = is_there ? rows[at] : 0;
        speeds[k] = is_there && velocity != nullptr ? velocity[at] : 0;
        own_rates[k] = is_there ? rates[c] : 0;
      }
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t c = first + k, at = c * n + i;
        if (c >= clients) break;
        const float* origin = anchor != nullptr ? anchor + c * anchor_stride + i : nullptr;
        const float* pull = pulls != nullptr ? pulls + at : nullptr;
        float g = pulled_gradient(rule, gradients[k], weights[k], pull, origin);
        if (velocity != nullptr) {
          g = with_momentum(rule, g, speeds[k]);
          velocity[at] = speeds[k];
        }
        if (own_rates[k] > 0) rows[at] = weights[k] - own_rates[k] * g;
      }
    }
  }
};

}  // namespace hanse
