// The losses of loss.hpp for all samples of a step.
#pragma once

#include <cstdint>

#include "block_work.hpp"
#include "hanse/base/both_sides.hpp"
#include "hanse/model/loss_math.hpp"
#include "hanse/model/loss_rule.hpp"
#include "part_sums.hpp"

namespace hanse {

// Overwrites logits with the gradient of their client's mean loss; loss.cpp has the formulas. A
// sample that its client does not have has zeros, whatever its logits are. A block is a client, and
// treats kGroups samples at once, each by kLanes threads.
struct LossWork {
  static constexpr int kThreads = 256, kLanes = 8, kGroups = kThreads / kLanes;
  static constexpr int kAtOnce = 2;  // outputs of a thread
  struct Scratch {
    float largest[kThreads];  // of a thread's outputs
    double sums[kThreads];    // of their exponentials
    int32_t labels[kGroups];  // of the group's sample; or ...
    float targets[kGroups];   // ... its target
    double own[kGroups];      // the label's logit less the largest
    double losses[kGroups];   // of the group's samples so far
    double squares[kGroups];  // likewise, of each squared
  };
  // Where a client's logits [B, outputs] are, and then their gradient.
  struct Rows {
    float* first;
    int64_t step;
    HANSE_BOTH_SIDES float* operator[](int64_t b) const { return first + b * step; }
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
  int32_t parts;       // the logits without the bias are sums of so many ...
  const float* found;  // [C, parts, B, outputs]; one part may be `logits`
  float* logits;       // [C, B, outputs]
  double* means;       // [C]
  double* totals;      // [C] the means are added to it; null: nowhere
  double* squares;     // [C] likewise the squared losses of samples

  HANSE_BOTH_SIDES int rounds() const { return static_cast<int>((batch + kGroups - 1) / kGroups); }
  HANSE_BOTH_SIDES int phases() const { return 3 * rounds() + 1; }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t client, int thread, Scratch& scratch) const {
    const Rows z{logits + client * batch * outputs, outputs};
    if (phase == 3 * rounds()) return finish(z, client, thread, scratch);
    differentiate(z, true, phase, client, thread, scratch);
  }

  // All phases but the last, on logits of a client that lie elsewhere. Without `notes` there are no
  // losses to finish().
  HANSE_BOTH_SIDES void differentiate(Rows rows, bool notes, int phase, int64_t client, int thread,
                                      Scratch& scratch) const {
    const int group = thread / kLanes;
    const int64_t b = int64_t{phase / 3} * kGroups + group;
    if (phase == 0 && thread % kLanes == 0) scratch.losses[group] = scratch.squares[group] = 0;
    if (b >= batch) return;
    float* z = rows[b];
    if (phase % 3 == 0) return begin(z, client, b, thread, scratch);
    const int64_t count = counts[client];
    if (b >= count) return;
    const float share = 1.0F / static_cast<float>(count);
    if (rule == LossRule::kCrossEntropy) {
      if (phase % 3 == 1) return exponentials(z, thread, scratch);
      const double sum = cross_entropy(z, share, thread, scratch);
      if (!notes || thread % kLanes > 0) return;
      note(log_from_one(sum) - scratch.own[group], count, group, scratch);
    } else if (phase % 3 == 1 && thread % kLanes == 0) {
      const double loss = rule == LossRule::kBinaryLogistic
                              ? logistic(z, scratch.labels[group] == 1 ? 1 : 0, share)
                              : squared_error(z, scratch.targets[group], share);
      note(loss, count, group, scratch);
    }
  }

  HANSE_BOTH_SIDES static void note(double loss, int64_t count, int group, Scratch& scratch) {
    scratch.losses[group] += loss / static_cast<double>(count);
    scratch.squares[group] += loss * loss;
  }

  // Takes what the sample's loss needs, finds its logits, and the largest of a thread's.
  HANSE_BOTH_SIDES void begin(float* z, int64_t client, int64_t b, int thread,
                              Scratch& scratch) const {
    const int lane = thread % kLanes, group = thread / kLanes;
    const int64_t place = places[client * batch + b];
    const bool is_there = b < counts[client];
    const PartSums sums{parts, static_cast<int32_t>(batch * outputs), kLanes};
    float largest = -__builtin_huge_valf();
    for (int64_t i = lane; i < outputs; i += kAtOnce * kLanes) {
      float values[kAtOnce], shifts[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        const bool is_output = i + k * kLanes < outputs;
        shifts[k] = bias != nullptr && is_output ? bias[client * bias_stride + i + k * kLanes] : 0;
      }
      sums.add(found + (client * parts * batch + b) * outputs + i, outputs - i, values);
      for (int k = 0; k < kAtOnce; ++k) {
        if (i + k * kLanes >= outputs) break;
        const float value = is_there ? values[k] + shifts[k] : 0;
        largest = value > largest ? value : largest;
        z[i + k * kLanes] = value;
      }
    }
    scratch.largest[thread] = largest;
    if (lane > 0) return;
    if (labels != nullptr) {
      scratch.labels[group] = labels[place];
    } else {
      scratch.targets[group] = targets[place];
    }
  }

  HANSE_BOTH_SIDES void exponentials(float* z, int thread, Scratch& scratch) const {
    const int lane = thread % kLanes, group = thread / kLanes;
    const int32_t label = scratch.labels[group];
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

  // Returns the sum of all exponentials.
  HANSE_BOTH_SIDES double cross_entropy(float* z, float share, int thread,
                                        const Scratch& scratch) const {
    const int lane = thread % kLanes, group = thread / kLanes;
    const int32_t label = scratch.labels[group];
    double sum = 0;
    for (int i = 0; i < kLanes; ++i) sum += scratch.sums[group * kLanes + i];
    const float factor = share / static_cast<float>(sum);
    for (int64_t i = lane; i < outputs; i += kLanes) {
      z[i] = z[i] * factor - (i == label ? share : 0);
    }
    return sum;
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

  // The client's losses, and the gradient of the bias, by threads of different warps.
  HANSE_BOTH_SIDES void finish(Rows z, int64_t client, int thread, const Scratch& scratch) const {
    if (thread == kThreads - 1) put_losses(client, scratch);
    if (bias_gradient == nullptr) return;
    for (int64_t i = thread; i < outputs; i += kThreads) {
      float sum = 0;
      for (int64_t b = 0; b < batch; ++b) sum += z[b][i];
      bias_gradient[client * bias_stride + i] = sum;
    }
  }

 private:
  HANSE_BOTH_SIDES void put_losses(int64_t client, const Scratch& scratch) const {
    const double total = totals != nullptr ? totals[client] : 0;
    const double all_squares = squares != nullptr ? squares[client] : 0;
    double mean = 0, squared = 0;
    for (int group = 0; group < kGroups && group < batch; ++group) {
      mean += scratch.losses[group];
      squared += scratch.squares[group];
    }
    means[client] = mean;
    if (totals != nullptr) totals[client] = total + mean;
    if (squares != nullptr) squares[client] = all_squares + squared;
  }
};

}  // namespace hanse
