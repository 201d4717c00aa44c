// The head of a small network in one kernel: its last layer, the losses and the way back through
// that layer, which as kernels of their own are latency above all.
#pragma once

#include <cstdint>

#include "block_work.hpp"
#include "dense_work.hpp"
#include "divider.hpp"
#include "hanse/base/both_sides.hpp"
#include "loss_work.hpp"

namespace hanse {

// A block is a client. In the order of its phases:
//   input <- relu(...) of the layer below, where that is a dense one
//   logits <- input weights^T, LossWork on them, which leaves their gradient (delta)
//   weight_gradient <- delta^T input, input_delta <- delta weights
//   the way back through that relu
struct HeadWork {
  static constexpr int kThreads = 512, kWarp = 32, kWarps = kThreads / kWarp;
  static constexpr int kMostUnits = 64, kMostBatch = 64, kMostInputs = 2048;
  struct Tile {  // a warp's, of the logits
    static constexpr int kSamples = 4, kUnits = 2, kValues = kSamples * kUnits;
    static constexpr int kRow = kWarp + 1;  // a tile's results lie in different banks of memory
  };
  struct Scratch {
    LossWork::Scratch loss;
    float delta[kMostBatch * kMostUnits];             // [B, units] logits, then their gradient
    float sums[kWarps * Tile::kValues * Tile::kRow];  // of each thread's share of the inputs
  };
  static_assert(sizeof(Scratch) <= 48 << 10);

  Divider inputs, unit_tiles;
  int32_t batch, units;
  LossWork loss;           // its logits are not used
  bool by_place;           // input: [samples, inputs], of which loss.places are the batches
  const float* input;      // [C, B, inputs]
  const float* weights;    // of each client, `stride` further, [units, inputs]
  float* weight_gradient;  // likewise
  int64_t stride;
  float* input_delta;  // [C, B, inputs]; null: none
  bool has_relu;       // whether the input is one's of
  UnitsWork below;     // it ...
  UnitsBackWork back;  // ... and its way back

  // Whether one block a client is enough for such a layer: of 132 that a GPU runs at once, each
  // does some ten products a clock. Larger ones are the libraries' and ProductWork's.
  static bool fits(int64_t batch, int64_t units, int64_t inputs) {
    constexpr int64_t kProducts = int64_t{1} << 17, kValues = int64_t{1} << 14;
    return batch <= kMostBatch && units <= kMostUnits && inputs <= kMostInputs &&
           batch * inputs <= kValues && batch * units * inputs <= kProducts;
  }
  static int64_t unit_tiles_of(int64_t units) { return (units + Tile::kUnits - 1) / Tile::kUnits; }

  HANSE_BOTH_SIDES int phases() const { return (has_relu ? 2 : 0) + 2 * rounds() + loss.phases(); }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t block, int thread, Scratch& scratch) const {
    const auto client = static_cast<int32_t>(block);
    const int32_t n = batch * inputs;
    if (has_relu && phase-- == 0) {
      return below.put<4>(client * n + thread, kThreads, (client + 1) * n);
    }
    if (phase < 2 * rounds()) {
      const int32_t first = phase / 2 * kWarps;
      return phase % 2 == 0 ? multiply(client, first, thread, scratch)
                            : put(first, thread, scratch);
    }
    phase -= 2 * rounds();
    if (phase < loss.phases()) {
      if (thread < LossWork::kThreads) loss.on(scratch.delta, phase, block, thread, scratch.loss);
      if (phase + 1 == loss.phases()) differentiate(client, thread, scratch);
      return;
    }
    for (int32_t i = thread; i < inputs; i += kThreads) back(client * inputs + i);
  }

 private:
  // Warps have a tile each in a round.
  HANSE_BOTH_SIDES int32_t tiles() const {
    return (batch + Tile::kSamples - 1) / Tile::kSamples * unit_tiles;
  }
  HANSE_BOTH_SIDES int rounds() const { return (tiles() + kWarps - 1) / kWarps; }

  HANSE_BOTH_SIDES const float* sample(int32_t client, int32_t b) const {
    const int64_t number = int64_t{client} * batch + b;
    return input + (by_place ? loss.places[number] : number) * inputs;
  }
  HANSE_BOTH_SIDES const float* own_weights(int32_t client) const {
    return weights + client * stride;
  }

  // Finds a thread's share of its warp's tile: the inputs lane, lane + kWarp, ...
  HANSE_BOTH_SIDES void multiply(int32_t client, int32_t first, int thread,
                                 Scratch& scratch) const {
    constexpr int kAtOnce = 4;
    const int warp = thread / kWarp, lane = thread % kWarp;
    if (first + warp >= tiles()) return;
    const auto [row, column] = unit_tiles.split(first + warp);
    const float *values[Tile::kSamples], *own[Tile::kUnits];
    for (int s = 0; s < Tile::kSamples; ++s) {
      const int32_t b = row * Tile::kSamples + s;
      values[s] = sample(client, b < batch ? b : batch - 1);
    }
    for (int u = 0; u < Tile::kUnits; ++u) {
      const int32_t unit = column * Tile::kUnits + u;
      own[u] = own_weights(client) + (unit < units ? unit : units - 1) * inputs;
    }
    float sums[Tile::kValues] = {};
    for (int32_t i = lane; i < inputs; i += kAtOnce * kWarp) {
      float x[kAtOnce][Tile::kSamples], w[kAtOnce][Tile::kUnits];
      for (int k = 0; k < kAtOnce; ++k) {
        const int32_t at = i + k * kWarp;
        for (int s = 0; s < Tile::kSamples; ++s) x[k][s] = at < inputs ? values[s][at] : 0;
        for (int u = 0; u < Tile::kUnits; ++u) w[k][u] = at < inputs ? own[u][at] : 0;
      }
      for (int k = 0; k < kAtOnce; ++k) {
        for (int t = 0; t < Tile::kValues; ++t)
          sums[t] += x[k][t / Tile::kUnits] * w[k][t % Tile::kUnits];
      }
    }
    for (int t = 0; t < Tile::kValues; ++t)
      scratch.sums[(warp * Tile::kValues + t) * Tile::kRow + lane] = sums[t];
  }

  // Adds the shares up.
  HANSE_BOTH_SIDES void put(int32_t first, int thread, Scratch& scratch) const {
    const int32_t tile = first + thread / Tile::kValues, t = thread % Tile::kValues;
    if (thread >= kWarps * Tile::kValues || tile >= tiles()) return;
    const auto [row, column] = unit_tiles.split(tile);
    const int32_t b = row * Tile::kSamples + t / Tile::kUnits,
                  unit = column * Tile::kUnits + t % Tile::kUnits;
    if (b >= batch || unit >= units) return;
    float sum = 0;
    for (int lane = 0; lane < kWarp; ++lane) sum += scratch.sums[thread * Tile::kRow + lane];
    scratch.delta[b * units + unit] = sum;
  }

  HANSE_BOTH_SIDES void differentiate(int32_t client, int thread, const Scratch& scratch) const {
    combine(
        {.results = units, .by_result = 1, .terms = batch, .by_term = units}, thread, scratch.delta,
        [&](int32_t b) { return sample(client, b); }, weight_gradient + client * stride);
    if (input_delta == nullptr) return;
    combine(
        {.results = batch, .by_result = units, .terms = units, .by_term = 1}, thread, scratch.delta,
        [&](int32_t unit) { return own_weights(client) + unit * inputs; },
        input_delta + int64_t{client} * batch * inputs);
  }

  struct Combination {
    int32_t results, by_result, terms, by_term;
  };

  // to[r] <- the sum of factors[r by_result + k by_term] row(k) over the terms k; rows of inputs.
  template <class Row>
  HANSE_BOTH_SIDES void combine(const Combination& c, int thread, const float* factors, Row row,
                                float* to) const {
    constexpr int kAtOnce = 4, kResults = 5;  // many networks have ten classes
    const int32_t items = (c.results + kResults - 1) / kResults * inputs;
    for (int32_t item = thread; item < items; item += kThreads) {
      const auto [tile, i] = inputs.split(item);
      int32_t places[kResults];
      for (int r = 0; r < kResults; ++r) {
        const int32_t result = tile * kResults + r;
        places[r] = (result < c.results ? result : c.results - 1) * c.by_result;
      }
      float sums[kResults] = {};
      for (int32_t k = 0; k < c.terms; k += kAtOnce) {
        float values[kAtOnce];
        for (int j = 0; j < kAtOnce; ++j) values[j] = k + j < c.terms ? row(k + j)[i] : 0;
        for (int j = 0; j < kAtOnce; ++j) {
          if (k + j >= c.terms) break;
          const float* own = factors + (k + j) * c.by_term;
          for (int r = 0; r < kResults; ++r) sums[r] += own[places[r]] * values[j];
        }
      }
      for (int r = 0; r < kResults; ++r) {
        const int32_t result = tile * kResults + r;
        if (result < c.results) to[result * inputs + i] = sums[r];
      }
    }
  }
};

}  // namespace hanse
