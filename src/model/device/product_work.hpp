// Products of dense layers whose sums are long and whose results are few: libraries have one thread
// block go through all of such a sum, and leave most of a GPU idle.
#pragma once

#include <cstdint>

#include "block_work.hpp"
#include "divider.hpp"
#include "four.hpp"
#include "hanse/base/both_sides.hpp"

namespace hanse {

// found[c, part] <- input[c] weights[c]^T over a part of the inputs, kPart of them. A block is a
// part for kUnits units of a client, kSamples samples after the other. It has a matrix of each in
// memory of its own, of which each thread has a slice of the inputs of a unit.
struct ProductWork {
  static constexpr int kThreads = 256, kUnits = 32, kSlices = kThreads / kUnits, kSamples = 20;
  static constexpr int kInputs = 128, kMatrices = 2, kPart = kMatrices * kInputs;
  static constexpr int kSlice = kInputs / kSlices;
  static constexpr int kRow = kInputs + 4;  // neighbours' slices lie in different banks of memory
  struct alignas(16) Scratch {
    float weights[kUnits * kRow];
    float input[kSamples * kInputs];
    float sums[kSlices * kSamples * kUnits];
  };

  Divider parts, tiles;  // of the inputs, and of the units
  int32_t batch, units, inputs;
  const float* input;    // [C, B, inputs]
  const float* weights;  // of each client, `stride` further, [units, inputs]
  int64_t stride;
  float* found;  // [C, parts, B, units]

  static int64_t parts_of(int64_t inputs) { return (inputs + kPart - 1) / kPart; }
  static int64_t tiles_of(int64_t units) { return (units + kUnits - 1) / kUnits; }

  int64_t blocks(int64_t clients) const { return clients * parts * tiles; }
  HANSE_BOTH_SIDES int phases() const {
    return (batch + kSamples - 1) / kSamples * (2 * kMatrices + 1);
  }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t block, int thread, Scratch& scratch) const {
    const auto [rest, tile] = tiles.split(static_cast<int32_t>(block));
    const auto [client, part] = parts.split(rest);
    const int32_t step = phase % (2 * kMatrices + 1);
    const Place at{client, part, tile * kUnits, phase / (2 * kMatrices + 1) * kSamples};
    if (step == 2 * kMatrices) {
      put(at, thread, scratch);
    } else if (step % 2 == 0) {
      take(at, part * kPart + step / 2 * kInputs, thread, scratch);
    } else {
      add(at, step == 1, thread, scratch);
    }
  }

 private:
  struct Place {
    int32_t client, part, unit, sample;
  };

  // Takes a matrix of the weights and of the input, from an input on; zeros stand beyond the ends.
  HANSE_BOTH_SIDES void take(const Place& at, int32_t first, int thread, Scratch& scratch) const {
    constexpr int kAtOnce = 8, kWeights = kUnits * kInputs;
    constexpr int kValuesAtOnce = 5, kValues = kSamples * kInputs;
    static_assert(kWeights % (kAtOnce * kThreads) == 0);
    static_assert(kValues % (kValuesAtOnce * kThreads) == 0);
    const float* own = weights + at.client * stride;
    for (int i = thread; i < kWeights; i += kAtOnce * kThreads) {
      float values[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        const int32_t unit = at.unit + (i + k * kThreads) / kInputs;
        const int32_t x = first + (i + k * kThreads) % kInputs;
        values[k] = unit < units && x < inputs ? own[int64_t{unit} * inputs + x] : 0;
      }
      for (int k = 0; k < kAtOnce; ++k) {
        const int place = i + k * kThreads;
        scratch.weights[place / kInputs * kRow + place % kInputs] = values[k];
      }
    }
    for (int i = thread; i < kValues; i += kValuesAtOnce * kThreads) {
      float values[kValuesAtOnce];
      for (int k = 0; k < kValuesAtOnce; ++k) {
        const int32_t b = at.sample + (i + k * kThreads) / kInputs;
        const int32_t x = first + (i + k * kThreads) % kInputs;
        const bool is_there = b < batch && x < inputs;
        values[k] = is_there ? input[(at.client * batch + b) * inputs + x] : 0;
      }
      for (int k = 0; k < kValuesAtOnce; ++k) scratch.input[i + k * kThreads] = values[k];
    }
  }

  // Adds the products of a thread's slice to its sums, or starts them.
  HANSE_BOTH_SIDES void add(const Place& at, bool starts, int thread, Scratch& scratch) const {
    constexpr int kAtOnce = 4;  // samples
    const int unit = thread % kUnits, slice = thread / kUnits;
    float* own = scratch.sums + slice * kSamples * kUnits + unit;
    for (int s = 0; s < kSamples; s += kAtOnce) {
      if (at.sample + s >= batch) break;
      float sums[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) sums[k] = starts ? 0 : own[(s + k) * kUnits];
      for (int x = slice * kSlice; x < (slice + 1) * kSlice; x += 4) {
        const Four w = four(scratch.weights + unit * kRow + x);
        for (int k = 0; k < kAtOnce; ++k) {
          const Four v = four(scratch.input + (s + k) * kInputs + x);
          for (int i = 0; i < 4; ++i) sums[k] += w.values[i] * v.values[i];
        }
      }
      for (int k = 0; k < kAtOnce; ++k) own[(s + k) * kUnits] = sums[k];
    }
  }

  // Writes the sums of all slices.
  HANSE_BOTH_SIDES void put(const Place& at, int thread, const Scratch& scratch) const {
    float* to = found + (at.client * parts + at.part) * batch * units;
    for (int i = thread; i < kSamples * kUnits; i += kThreads) {
      const int32_t b = at.sample + i / kUnits, unit = at.unit + i % kUnits;
      if (b >= batch || unit >= units) continue;
      float sum = 0;
      for (int k = 0; k < kSlices; ++k) sum += scratch.sums[k * kSamples * kUnits + i];
      to[b * units + unit] = sum;
    }
  }
};

}  // namespace hanse
