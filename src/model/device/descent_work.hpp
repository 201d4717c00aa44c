// The steps of a client's optimizer for all clients of a cohort, item by item.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"
#include "hanse/model/step_rule.hpp"

namespace hanse {

// Where steps start. An item is a parameter, of every client.
struct StartWork {
  const float* theta;  // [n]
  float* rows;         // of each client, `stride` further, [n]
  float* moments;      // likewise, of each moment and client; null: there are none
  float* sums;         // likewise, of each client; null: steps have one batch
  double* losses;      // [C]
  int64_t n_moments;   // of all clients
  int64_t clients, stride;

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    const float value = theta[i];
    for (int64_t c = 0; c < clients; ++c) rows[c * stride + i] = value;
    for (int64_t c = 0; c < n_moments; ++c) moments[c * stride + i] = 0;
    for (int64_t c = 0; sums != nullptr && c < clients; ++c) sums[c * stride + i] = 0;
    for (int64_t c = 0; i == 0 && c < clients; ++c) losses[c] = 0;
  }
};

// Adds up the gradients of mini-batches, by their samples. An item is a parameter, of every client.
struct AccumulateWork {
  const float* gradient;  // [C, n]
  const int64_t* counts;  // [C] samples; 0: the client's sum stays, whatever the gradient is
  const double* slopes;   // [C]; null: 1
  float* sums;            // [C, n]
  int64_t clients, n;

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    for (int64_t c = 0; c < clients; ++c) {
      if (counts[c] == 0) continue;
      const double slope = slopes != nullptr ? slopes[c] : 1;
      const auto weight = static_cast<float>(slope * static_cast<double>(counts[c]));
      sums[c * n + i] += weight * gradient[c * n + i];
    }
  }
};

// An item is a parameter, of every client. It reads what some clients have before it writes any, so
// that several reads are under way.
struct DescentWork {
  static constexpr int kAtOnce = 4;

  StepNumbers numbers;
  const float* gradient;  // [C, n]
  const float* anchor;  // of the proximal term, of each client `anchor_stride` further; null: none
  const float* pulls;   // [C, n]; null: none
  const StepSize* sizes;  // [C]; scale 0: the client's values stay, whatever the gradient is
  const double* factors;  // [C] on the gradient, besides; null: 1
  float* first;           // [C, n] moments, as many as the rule has; else null
  float* second;
  float* rows;   // [C, n]
  float* spent;  // [C, n] set to zero by a client's step: `gradient`, where it is a sum; else null
  int64_t clients, n;
  int64_t anchor_stride;  // n, or 0 where all clients have the same one
  const uint8_t* moves;   // [parts, n] 0: the value stays in steps of that part; null: all move

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    for (int64_t from = 0; from < clients; from += kAtOnce) {
      float gradients[kAtOnce], weights[kAtOnce], ones[kAtOnce], twos[kAtOnce];
      StepSize own[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t c = from + k, at = c * n + i;
        const bool is_there = c < clients;
        gradients[k] = is_there ? gradient[at] : 0;
        weights[k] = is_there ? rows[at] : 0;
        ones[k] = is_there && first != nullptr ? first[at] : 0;
        twos[k] = is_there && second != nullptr ? second[at] : 0;
        own[k] = is_there ? sizes[c] : StepSize{0, 0, 1, 1, 0};
        if (is_there && factors != nullptr && own[k].scale > 0) {
          own[k].scale = static_cast<float>(static_cast<double>(own[k].scale) * factors[c]);
        }
      }
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t c = from + k, at = c * n + i;
        if (c >= clients || sizes[c].scale == 0) continue;
        if (spent != nullptr) spent[at] = 0;
        if (moves != nullptr && moves[own[k].part * n + i] == 0) continue;
        const float* origin = anchor != nullptr ? anchor + c * anchor_stride + i : nullptr;
        const float* pull = pulls != nullptr ? pulls + at : nullptr;
        const float g =
            pulled_gradient(numbers.rule, own[k].scale * gradients[k], weights[k], pull, origin);
        rows[at] =
            own[k].keep * weights[k] - own[k].rate * direction_of(own[k].root, g, ones[k], twos[k]);
        if (first != nullptr) first[at] = ones[k];
        if (second != nullptr) second[at] = twos[k];
      }
    }
  }

 private:
  HANSE_BOTH_SIDES float direction_of(float root, float g, float& one, float& two) const {
    switch (numbers.kind) {
      case StepRule::kSgd: break;
      case StepRule::kMomentum: return direction<StepRule::kMomentum>(numbers, root, g, one, two);
      case StepRule::kAdam: return direction<StepRule::kAdam>(numbers, root, g, one, two);
      case StepRule::kAdagrad: return direction<StepRule::kAdagrad>(numbers, root, g, one, two);
      case StepRule::kRmsprop: return direction<StepRule::kRmsprop>(numbers, root, g, one, two);
      case StepRule::kRmspropMomentum:
        return direction<StepRule::kRmspropMomentum>(numbers, root, g, one, two);
    }
    return g;
  }
};

}  // namespace hanse
