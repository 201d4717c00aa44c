// The losses of loss.hpp for all samples of a step.
#pragma once

#include <cstdint>

#include "block_work.hpp"
#include "hanse/base/both_sides.hpp"
#include "hanse/model/loss_math.hpp"
#include "hanse/model/loss_rule.hpp"

namespace hanse {

// Overwrites logits with the gradient of their client's mean loss; loss.cpp has the formulas. A
// sample that its client does not have has zeros, whatever its logits are. A block is a client, and
// treats kGroups samples at once, each by kLanes threads.
struct LossWork {
  static constexpr int kThreads = 256, kLanes = 8, kGroups = kThreads / kLanes;
  struct Scratch {
    float largest[kThreads];  // of a thread's outputs
    double sums[kThreads];    // of their exponentials
    double own[kGroups];      // the label's logit less the largest
    double losses[kGroups];   // of the group's samples so far
    double squares[kGroups];  // likewise, of each squared
  };

  LossRule rule;
  int64_t batch, outputs;
  const int64_t* counts;  // [C] samples
  const int64_t* places;  // [C, B]
  const int32_t* labels;  // by place, or ...
  const float* targets;   // ... targets; the other is null
  const float* bias;      // of each client, `bias_stride` further, [outputs]; null: none
  float* bias_gradient;   // likewise
  int64_t bias_stride;
  float* logits;    // [C, B, outputs] without the bias
  double* means;    // [C]
  double* totals;   // [C] the means are added to it; null: nowhere
  double* squares;  // [C] likewise the squared losses of samples

  HANSE_BOTH_SIDES int rounds() const { return static_cast<int>((batch + kGroups - 1) / kGroups); }
  HANSE_BOTH_SIDES int phases() const { return 3 * rounds() + 1; }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t client, int thread, Scratch& scratch) const {
    on(logits + client * batch * outputs, phase, client, thread, scratch);
  }

  // The same on logits [B, outputs] of a client that lie elsewhere.
  HANSE_BOTH_SIDES void on(float* own, int phase, int64_t client, int thread,
                           Scratch& scratch) const {
    if (phase == 3 * rounds()) return finish(own, client, thread, scratch);
    const int group = thread / kLanes;
    const int64_t b = int64_t{phase / 3} * kGroups + group;
    if (phase == 0 && thread % kLanes == 0) scratch.losses[group] = scratch.squares[group] = 0;
    if (b >= batch) return;
    const int64_t sample = client * batch + b, count = counts[client];
    float* z = own + b * outputs;
    const float share = 1.0F / static_cast<float>(count);
    if (b >= count) {
      for (int64_t i = thread % kLanes; i < outputs; i += kLanes) z[i] = 0;
    } else if (phase % 3 == 0) {
      begin(z, client, thread, scratch);
    } else if (rule == LossRule::kCrossEntropy) {
      const int64_t label = labels[places[sample]];
      if (phase % 3 == 1) {
        exponentials(z, label, thread, scratch);
      } else {
        cross_entropy(z, label, count, thread, scratch);
      }
    } else if (phase % 3 == 1 && thread % kLanes == 0) {
      const double loss = rule == LossRule::kBinaryLogistic
                              ? logistic(z, labels[places[sample]] == 1 ? 1 : 0, share)
                              : squared_error(z, targets[places[sample]], share);
      note(loss, count, group, scratch);
    }
  }

  HANSE_BOTH_SIDES static void note(double loss, int64_t count, int group, Scratch& scratch) {
    scratch.losses[group] += loss / static_cast<double>(count);
    scratch.squares[group] += loss * loss;
  }

  // Adds the bias, and finds the largest of a thread's outputs.
  HANSE_BOTH_SIDES void begin(float* z, int64_t client, int thread, Scratch& scratch) const {
    float largest = -__builtin_huge_valf();
    for (int64_t i = thread % kLanes; i < outputs; i += kLanes) {
      const float value = z[i] + (bias != nullptr ? bias[client * bias_stride + i] : 0);
      largest = value > largest ? value : largest;
      z[i] = value;
    }
    scratch.largest[thread] = largest;
  }

  HANSE_BOTH_SIDES void exponentials(float* z, int64_t label, int thread, Scratch& scratch) const {
    const int lane = thread % kLanes, group = thread / kLanes;
    float largest = scratch.largest[group * kLanes];
    for (int i = 1; i < kLanes; ++i) {
      const float next = scratch.largest[group * kLanes + i];
      largest = next > largest ? next : largest;
    }
    double sum = 0;
    for (int64_t i = lane; i < outputs; i += kLanes) {
      const float above = z[i] - largest;
      if (i == label) scratch.own[group] = static_cast<double>(above);
      z[i] = exp_nonpositive(above);
      sum += static_cast<double>(z[i]);
    }
    scratch.sums[thread] = sum;
  }

  HANSE_BOTH_SIDES void cross_entropy(float* z, int64_t label, int64_t count, int thread,
                                      Scratch& scratch) const {
    const int lane = thread % kLanes, group = thread / kLanes;
    const float share = 1.0F / static_cast<float>(count);
    double sum = 0;
    for (int i = 0; i < kLanes; ++i) sum += scratch.sums[group * kLanes + i];
    const float factor = share / static_cast<float>(sum);
    for (int64_t i = lane; i < outputs; i += kLanes) {
      z[i] = z[i] * factor - (i == label ? share : 0);
    }
    if (lane > 0) return;
    const double loss = log_from_one(sum) - scratch.own[group];
    note(loss, count, group, scratch);
  }

  HANSE_BOTH_SIDES static double squared_error(float* z, float target, float share) {
    const float error = z[0] - target;
    z[0] = error * share;
    return static_cast<double>(error) * static_cast<double>(error) / 2;
  }

  HANSE_BOTH_SIDES static double logistic(float* z, float y, float share) {
    const float x = z[0], e = exp_nonpositive(x > 0 ? -x : x);
    z[0] = ((x >= 0 ? 1 : e) / (1 + e) - y) * share;
    return static_cast<double>(x > 0 ? x : 0) - static_cast<double>(y * x) +
           log_from_one(1 + static_cast<double>(e));
  }

  // The client's mean, and the gradient of the bias.
  HANSE_BOTH_SIDES void finish(const float* z, int64_t client, int thread,
                               const Scratch& scratch) const {
    if (thread == 0) {
      double mean = 0, squared = 0;
      for (int group = 0; group < kGroups; ++group) {
        mean += scratch.losses[group];
        squared += scratch.squares[group];
      }
      means[client] = mean;
      if (totals != nullptr) totals[client] += mean;
      if (squares != nullptr) squares[client] += squared;
    }
    if (bias_gradient == nullptr) return;
    for (int64_t i = thread; i < outputs; i += kThreads) {
      float sum = 0;
      for (int64_t b = 0; b < batch; ++b) sum += z[b * outputs + i];
      bias_gradient[client * bias_stride + i] = sum;
    }
  }
};

}  // namespace hanse
