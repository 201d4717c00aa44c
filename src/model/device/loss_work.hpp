// The losses of loss.hpp for all samples of a step, item by item.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"
#include "hanse/model/loss_math.hpp"
#include "hanse/model/loss_rule.hpp"

namespace hanse {

// Overwrites logits with the gradient of their client's mean loss; loss.cpp has the formulas. An
// item is a sample; one that its client does not have has zeros, whatever its logits are.
struct LossWork {
  LossRule rule;
  int64_t batch, outputs;
  const int64_t* counts;  // [C] samples
  const int64_t* places;  // [C, B]
  const int32_t* labels;  // by place, or ...
  const float* targets;   // ... targets; the other is null
  const float* bias;      // of each client, `bias_stride` further, [outputs]; null: none
  int64_t bias_stride;
  float* logits;   // [C, B, outputs] without the bias
  double* losses;  // [C, B] each over its client's samples

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int64_t client = item / batch, count = counts[client];
    float* z = logits + item * outputs;
    losses[item] = 0;
    if (item % batch >= count) {
      for (int64_t i = 0; i < outputs; ++i) z[i] = 0;
      return;
    }
    for (int64_t i = 0; i < outputs && bias != nullptr; ++i) z[i] += bias[client * bias_stride + i];
    losses[item] =
        loss_of(z, places[item], 1.0F / static_cast<float>(count)) / static_cast<double>(count);
  }

  HANSE_BOTH_SIDES double loss_of(float* z, int64_t place, float share) const {
    if (rule == LossRule::kCrossEntropy) return cross_entropy(z, labels[place], share);
    if (rule == LossRule::kBinaryLogistic) return logistic(z, labels[place] == 1 ? 1 : 0, share);
    const float error = z[0] - targets[place];
    z[0] = error * share;
    return static_cast<double>(error) * static_cast<double>(error) / 2;
  }

  HANSE_BOTH_SIDES double cross_entropy(float* z, int64_t label, float share) const {
    float largest = z[0];
    for (int64_t i = 1; i < outputs; ++i) largest = z[i] > largest ? z[i] : largest;
    const double own = static_cast<double>(z[label] - largest);
    double sum = 0;
    for (int64_t i = 0; i < outputs; ++i) {
      z[i] = exp_nonpositive(z[i] - largest);
      sum += static_cast<double>(z[i]);
    }
    const float factor = share / static_cast<float>(sum);
    for (int64_t i = 0; i < outputs; ++i) z[i] *= factor;
    z[label] -= share;
    return log_from_one(sum) - own;
  }

  HANSE_BOTH_SIDES static double logistic(float* z, float y, float share) {
    const float x = z[0], e = exp_nonpositive(x > 0 ? -x : x);
    z[0] = ((x >= 0 ? 1 : e) / (1 + e) - y) * share;
    return static_cast<double>(x > 0 ? x : 0) - static_cast<double>(y * x) +
           log_from_one(1 + static_cast<double>(e));
  }
};

}  // namespace hanse
