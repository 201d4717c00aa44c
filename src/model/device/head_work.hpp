// The second kernel of a head.
#pragma once

#include <cstdint>

#include "block_work.hpp"
#include "dense_work.hpp"
#include "divider.hpp"
#include "four.hpp"
#include "hanse/base/both_sides.hpp"
#include "head_layer.hpp"
#include "loss_work.hpp"

namespace hanse {

// What LogitsWork leaves to do. Each slice's block finds the gradient of all logits for itself. One
// more block of each client has no inputs, and finds the losses meanwhile. In the order of phases:
//   LossWork on the sums of LogitsWork's parts, which leaves the gradient of the logits (delta)
//   weight_gradient <- delta^T input, input_delta <- delta weights, and back through the relu
//   the gradient of the bias below
struct HeadWork {
  static constexpr int kThreads = 512;
  static constexpr int kInputs = HeadLayer::kInputs, kLanes = kThreads / kInputs;
  static constexpr int kResults = 4;  // units or samples of an input that a thread finds at once
  static constexpr int kMostTiles = HeadLayer::kMostBatch / kResults;
  struct alignas(16) Scratch {
    float rows[HeadLayer::kMostRows * kInputs];  // HeadLayer::take
    float delta[HeadLayer::kMostLogits];         // of each sample, row() further, its units
    float below[kMostTiles * kInputs];           // sums over a tile's samples
    LossWork::Scratch loss;
  };
  static_assert(sizeof(Scratch) <= 48 << 10);

  HeadLayer layer;
  Divider blocks_each;     // blocks_of(layer)
  LossWork loss;           // `found` is LogitsWork's; logits: none
  float* weight_gradient;  // of each client, layer.stride further, [units, inputs]
  float* input_delta;      // [C, B, inputs]; null: none, and no relu
  bool has_relu;           // whether the input is one's of LogitsWork::below, and ...
  UnitsBackWork back;      // ... this its way back, whose `delta` is not used

  static int64_t blocks_of(const HeadLayer& layer) { return layer.slices() + 1; }

  int64_t blocks(int64_t clients) const { return clients * blocks_each; }
  HANSE_BOTH_SIDES int phases() const { return 3 * loss.rounds() + (has_bias_below() ? 2 : 1); }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t block, int thread, Scratch& scratch) const {
    const auto [client, number] = blocks_each.split(static_cast<int32_t>(block));
    const HeadLayer::Slice slice = layer.slice(client, number);
    const bool has_inputs = slice.width > 0;
    const LossWork::Rows delta{scratch.delta, row()};
    const int last = 3 * loss.rounds();
    if (phase < last) {
      if (thread < LossWork::kThreads) {
        loss.differentiate(delta, !has_inputs, phase, client, thread, scratch.loss);
      } else if (phase == 0 && has_inputs) {
        take(slice, thread - LossWork::kThreads, scratch);
      }
    } else if (!has_inputs) {
      if (phase == last && thread < LossWork::kThreads) {
        loss.finish(delta, client, thread, scratch.loss);
      }
    } else if (phase == last) {
      go_back(slice, thread, scratch);
    } else {
      put_bias_below(slice, thread, scratch);
    }
  }

 private:
  // Floats of a sample in Scratch::delta, which starts with a Four.
  HANSE_BOTH_SIDES int32_t row() const {
    return static_cast<int32_t>(HeadLayer::whole_fours(layer.units));
  }
  HANSE_BOTH_SIDES bool has_bias_below() const { return has_relu && back.bias_gradient != nullptr; }

  // The other half of the threads finds the losses meanwhile.
  HANSE_BOTH_SIDES void take(const HeadLayer::Slice& slice, int thread, Scratch& scratch) const {
    const int32_t first = input_delta != nullptr ? 0 : layer.units;
    layer.take(slice, first, layer.units + layer.batch - first, thread,
               kThreads - LossWork::kThreads, scratch.rows + first * kInputs);
  }

  // A thread has tiles of results of an input: of the units, then of the samples.
  HANSE_BOTH_SIDES void go_back(const HeadLayer::Slice& slice, int thread, Scratch& scratch) const {
    const int32_t i = thread % kInputs, of_units = tiles(layer.units);
    if (i >= slice.width) return;
    const int32_t all = of_units + (input_delta != nullptr ? tiles(layer.batch) : 0);
    for (int32_t tile = thread / kInputs; tile < all; tile += kLanes) {
      if (tile < of_units) {
        put_weights(slice, tile * kResults, i, scratch);
      } else {
        scratch.below[(tile - of_units) * kInputs + i] =
            put_inputs(slice, (tile - of_units) * kResults, i, scratch);
      }
    }
  }
  HANSE_BOTH_SIDES static int32_t tiles(int32_t results) {
    return (results + kResults - 1) / kResults;
  }

  HANSE_BOTH_SIDES void put_weights(const HeadLayer::Slice& slice, int32_t unit, int32_t i,
                                    const Scratch& scratch) const {
    const float* x = scratch.rows + layer.units * kInputs + i;
    float sums[kResults] = {};
    for (int32_t b = 0; b < layer.batch; ++b) {
      const Four delta = four(scratch.delta + b * row() + unit);
      for (int k = 0; k < kResults; ++k) sums[k] += delta.values[k] * x[b * kInputs];
    }
    float* to = weight_gradient + slice.client * layer.stride + slice.first + i;
    for (int k = 0; k < kResults; ++k) {
      if (unit + k < layer.units) to[(unit + k) * layer.inputs] = sums[k];
    }
  }

  // Returns the sum of the samples' gradients.
  HANSE_BOTH_SIDES float put_inputs(const HeadLayer::Slice& slice, int32_t sample, int32_t i,
                                    const Scratch& scratch) const {
    const int32_t first = (slice.client * layer.batch + sample) * layer.inputs + slice.first + i;
    float scales[kResults], sums[kResults] = {}, sum = 0;
    for (int k = 0; k < kResults; ++k) {
      const bool is_there = has_relu && sample + k < layer.batch;
      scales[k] = is_there ? back.scale_at(first + k * layer.inputs) : 1;
    }
    for (int32_t unit = 0; unit < layer.units; unit += 4) {
      Four delta[kResults];
      for (int k = 0; k < kResults; ++k) {
        const int32_t b = sample + k < layer.batch ? sample + k : sample;
        delta[k] = four(scratch.delta + b * row() + unit);
      }
      for (int u = 0; u < 4; ++u) {
        if (unit + u >= layer.units) break;
        const float w = scratch.rows[(unit + u) * kInputs + i];
        for (int k = 0; k < kResults; ++k) sums[k] += delta[k].values[u] * w;
      }
    }
    for (int k = 0; k < kResults; ++k) {
      if (sample + k >= layer.batch) break;
      const float value = scratch.rows[(layer.units + sample + k) * kInputs + i];
      const float gradient = has_relu ? UnitsBackWork::before(value, scales[k], sums[k]) : sums[k];
      input_delta[first + k * layer.inputs] = gradient;
      sum += gradient;
    }
    return sum;
  }

  HANSE_BOTH_SIDES void put_bias_below(const HeadLayer::Slice& slice, int thread,
                                       const Scratch& scratch) const {
    if (thread >= slice.width) return;
    float sum = 0;
    for (int32_t tile = 0; tile < tiles(layer.batch); ++tile) {
      sum += scratch.below[tile * kInputs + thread];
    }
    back.bias_gradient[slice.client * back.bias_stride + slice.first + thread] = sum;
  }
};

}  // namespace hanse
