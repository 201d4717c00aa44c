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

// An item is a parameter, of kClients clients: of the first ones all parameters, then of the next.
// With SGD it reads what they have before it writes any, so that several reads are under way.
struct DescentWork {
  static constexpr int kClients = 4;

  StepNumbers numbers;
  const float* gradient;  // [C, n]
  const float* anchor;  // of the proximal term, of each client `anchor_stride` further; null: none
  const float* pulls;   // [C, n]; null: none
  const StepSize* sizes;  // [C], but for their scales:
  const float* scales;    // of each client `scale_stride` further; 0: the client's values stay,
                          // whatever the gradient is
  float* first;           // [C, n] moments, as many as the rule has; else null
  float* second;
  float* rows;   // [C, n]
  float* spent;  // [C, n] set to zero by a client's step: `gradient`, where it is a sum; else null
  int64_t clients, n;
  int64_t trained;        // of n: the first ones, which move
  int64_t anchor_stride;  // n, or 0 where all clients have the same one
  int64_t scale_stride;
  const uint8_t* moves;  // [parts, n] 0: the value stays in steps of that part; null: all move

  int64_t items() const { return (clients + kClients - 1) / kClients * trained; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t group = item / trained, i = item - group * trained,
                  first_client = group * kClients;
    const int64_t left = clients - first_client;
    const int some = left < kClients ? static_cast<int>(left) : kClients;
    if (numbers.kind == StepRule::kSgd || numbers.kind == StepRule::kMomentum) {
      return move_some(first_client, some, i);
    }
    for (int64_t c = first_client; c < first_client + some; ++c) {
      const int64_t at = c * n + i;
      const float scale = scales[c * scale_stride], w = rows[at];
      if (scale == 0) continue;
      const float own = gradient[at];
      if (spent != nullptr) spent[at] = 0;
      if (!moves_in(c, i)) continue;
      float one = first[at], two = second != nullptr ? second[at] : 0;
      const float g = pulled(c, i, scale * own, w);
      const float step = direction_of(sizes[c].root, g, one, two);
      rows[at] = sizes[c].keep * w - sizes[c].rate * step;
      first[at] = one;
      if (second != nullptr) second[at] = two;
    }
  }

 private:
  // What a client's step begins with.
  struct Before {
    float scale, rate, gradient, weight, speed;
  };

  // SGD, whose decay is in the gradient: keep is 1.
  HANSE_BOTH_SIDES void move_some(int64_t from, int some, int64_t i) const {
    Before all[kClients];
    for (int k = 0; k < kClients; ++k) {
      const int64_t c = k < some ? from + k : from, at = c * n + i;
      all[k] = {.scale = scales[c * scale_stride],
                .rate = sizes[c].rate,
                .gradient = gradient[at],
                .weight = rows[at],
                .speed = first != nullptr ? first[at] : 0};
    }
    for (int k = 0; k < kClients; ++k) {
      if (k < some) move(from + k, i, all[k]);
    }
  }

  HANSE_BOTH_SIDES void move(int64_t c, int64_t i, const Before& own) const {
    const int64_t at = c * n + i;
    float speed = own.speed;
    float g = pulled(c, i, own.scale * own.gradient, own.weight);
    if (first != nullptr) g = with_momentum(numbers.rule, g, speed);
    if (own.scale == 0) return;
    if (spent != nullptr) spent[at] = 0;
    if (!moves_in(c, i)) return;
    if (first != nullptr) first[at] = speed;
    rows[at] = own.weight - own.rate * g;
  }

  HANSE_BOTH_SIDES bool moves_in(int64_t c, int64_t i) const {
    return moves == nullptr || moves[sizes[c].part * n + i] != 0;
  }

  HANSE_BOTH_SIDES float pulled(int64_t c, int64_t i, float g, float w) const {
    const float* origin = anchor != nullptr ? anchor + c * anchor_stride + i : nullptr;
    const float* pull = pulls != nullptr ? pulls + c * n + i : nullptr;
    return pulled_gradient(numbers.rule, g, w, pull, origin);
  }

  // REQUIRES: a rule that looks at squares.
  HANSE_BOTH_SIDES float direction_of(float root, float g, float& one, float& two) const {
    switch (numbers.kind) {
      case StepRule::kAdam: return direction<StepRule::kAdam>(numbers, root, g, one, two);
      case StepRule::kAdagrad: return direction<StepRule::kAdagrad>(numbers, root, g, one, two);
      case StepRule::kRmsprop: return direction<StepRule::kRmsprop>(numbers, root, g, one, two);
      default: return direction<StepRule::kRmspropMomentum>(numbers, root, g, one, two);
    }
  }
};

}  // namespace hanse
