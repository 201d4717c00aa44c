// The head of a small network in two kernels, LogitsWork and HeadWork: its last layer, the losses
// and the way back through that layer, which as kernels of their own are latency above all. All but
// the logits, sums over all inputs, is of each input alone: so the inputs of a client are cut into
// slices, and many blocks treat a client.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// What both kernels read. A block takes the weights and the samples of its slice to memory of its
// own, many of them at once.
struct HeadLayer {
  static constexpr int kInputs = 64;  // of a slice
  static constexpr int kMostInputs = 2048, kMostUnits = 64, kMostBatch = 64;
  static constexpr int kMostRows = 96;      // units and samples
  static constexpr int kMostLogits = 2048;  // of a client, its units filled up to whole Fours

  struct Slice {
    int32_t client, first, width;  // width: inputs, from the first one on
  };

  int32_t batch, units, inputs;
  bool by_place;          // input: [samples, inputs], of which `places` are the batches
  const int64_t* places;  // [C, B]
  const float* input;     // [C, B, inputs]
  const float* weights;   // of each client, `stride` further, [units, inputs]
  int64_t stride;

  // Whether a slice has so few products that its blocks are done hardly later than they have what
  // they read, and the blocks of some ten clients are on a GPU at once. Of larger layers the
  // products take longest, at which libraries and ProductWork are better.
  static bool fits(int64_t batch, int64_t units, int64_t inputs) {
    constexpr int64_t kProducts = int64_t{1} << 20;
    return batch <= kMostBatch && units <= kMostUnits && inputs <= kMostInputs &&
           batch + units <= kMostRows && batch * whole_fours(units) <= kMostLogits &&
           batch * units * inputs <= kProducts;
  }
  HANSE_BOTH_SIDES static int64_t whole_fours(int64_t n) { return (n + 3) / 4 * 4; }

  HANSE_BOTH_SIDES int32_t slices() const { return (inputs + kInputs - 1) / kInputs; }
  // The number-th of a client. One that is not there has no inputs.
  HANSE_BOTH_SIDES Slice slice(int32_t client, int32_t number) const {
    const int32_t first = number * kInputs, left = inputs - first;
    return {client, first, left < 0 ? 0 : left < kInputs ? left : kInputs};
  }

  // Whether there is no input for a thread, of a group of `threads`. Then zeros stand in its place
  // of rows [n, kInputs].
  HANSE_BOTH_SIDES static bool is_beyond(const Slice& slice, int32_t n, int thread, int threads,
                                         float* rows) {
    const int32_t i = thread % kInputs;
    if (i < slice.width) return false;
    for (int32_t row = thread / kInputs; row < n; row += threads / kInputs) {
      rows[row * kInputs + i] = 0;
    }
    return true;
  }

  // rows [n, kInputs] <- rows first, first + 1, ... of the slice, by `threads` threads: a row for
  // each unit, then one for each sample.
  HANSE_BOTH_SIDES void take(const Slice& slice, int32_t first, int32_t n, int thread, int threads,
                             float* rows) const {
    if (by_place) {
      take_from<true>(slice, first, n, thread, threads, rows);
    } else {
      take_from<false>(slice, first, n, thread, threads, rows);
    }
  }

 private:
  template <bool kByPlace>
  HANSE_BOTH_SIDES void take_from(const Slice& slice, int32_t first, int32_t n, int thread,
                                  int threads, float* rows) const {
    constexpr int kAtOnce = 8;
    if (is_beyond(slice, n, thread, threads, rows)) return;
    const int32_t i = thread % kInputs, step = threads / kInputs;
    const float* own_weights = weights + slice.client * stride;
    for (int32_t row = thread / kInputs; row < n; row += kAtOnce * step) {
      int64_t samples[kAtOnce];
      float values[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        const int32_t at = row + k * step < n ? first + row + k * step : first + row;
        const int32_t number = slice.client * batch + (at < units ? 0 : at - units);
        samples[k] = kByPlace ? places[number] : number;
      }
      for (int k = 0; k < kAtOnce; ++k) {
        const int32_t at = row + k * step < n ? first + row + k * step : first + row;
        const float* from = at < units ? own_weights + at * inputs : input + samples[k] * inputs;
        values[k] = from[slice.first + i];
      }
      for (int k = 0; k < kAtOnce; ++k) {
        if (row + k * step < n) rows[(row + k * step) * kInputs + i] = values[k];
      }
    }
  }
};

}  // namespace hanse
