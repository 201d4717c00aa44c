// The first kernel of a head.
#pragma once

#include <cstdint>

#include "block_work.hpp"
#include "dense_work.hpp"
#include "divider.hpp"
#include "four.hpp"
#include "hanse/base/both_sides.hpp"
#include "head_layer.hpp"

namespace hanse {

// The logits, in parts: a block is a slice of a client. In the order of its phases:
//   input <- relu(...) of the layer below, where that is a dense one
//   found <- input weights^T over the slice
struct LogitsWork {
  static constexpr int kThreads = 256;
  static constexpr int kParts = HeadLayer::kInputs / 4;  // of a slice: a Four of inputs each
  static constexpr int kTiles = kThreads / kParts;       // of the logits at once
  struct Tile {
    static constexpr int kSamples = 4, kUnits = 2, kValues = kSamples * kUnits;
    static constexpr int kRow = kParts + 1;  // a tile's parts lie in different banks of memory
  };
  struct alignas(16) Scratch {
    float rows[HeadLayer::kMostRows * HeadLayer::kInputs];  // HeadLayer::take
    float sums[kTiles * Tile::kValues * Tile::kRow];        // of each part
  };
  static_assert(sizeof(Scratch) <= 48 << 10);

  HeadLayer layer;
  Divider slices;      // layer.slices()
  Divider unit_tiles;  // unit_tiles_of(units)
  bool has_relu;       // whether the input is one's of
  UnitsWork below;     // it
  float* found;        // [C, slices, B, units]

  static int64_t unit_tiles_of(int64_t units) { return (units + Tile::kUnits - 1) / Tile::kUnits; }

  int64_t blocks(int64_t clients) const { return clients * slices; }
  HANSE_BOTH_SIDES int phases() const { return 1 + 2 * ((tiles() + kTiles - 1) / kTiles); }

  HANSE_BOTH_SIDES void operator()(int phase, int64_t block, int thread, Scratch& scratch) const {
    const auto [client, number] = slices.split(static_cast<int32_t>(block));
    if (phase == 0) return take(layer.slice(client, number), thread, scratch);
    const int32_t first = (phase - 1) / 2 * kTiles;
    if (phase % 2 == 1) return multiply(first + thread / kParts, thread, scratch);
    put(first, thread, scratch, found + block * layer.batch * layer.units);
  }

 private:
  HANSE_BOTH_SIDES int32_t tiles() const {
    return (layer.batch + Tile::kSamples - 1) / Tile::kSamples * unit_tiles;
  }

  HANSE_BOTH_SIDES void take(const HeadLayer::Slice& slice, int thread, Scratch& scratch) const {
    if (!has_relu) {
      return layer.take(slice, 0, layer.units + layer.batch, thread, kThreads, scratch.rows);
    }
    layer.take(slice, 0, layer.units, thread, kThreads, scratch.rows);
    constexpr int kAtOnce = 4, kInputs = HeadLayer::kInputs, kStep = kThreads / kInputs;
    float* to = scratch.rows + layer.units * kInputs;
    if (HeadLayer::is_beyond(slice, layer.batch, thread, kThreads, to)) return;
    const int32_t i = thread % kInputs;
    for (int32_t row = thread / kInputs; row < layer.batch; row += kAtOnce * kStep) {
      int32_t at[kAtOnce];
      float values[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) {
        const int32_t b = row + k * kStep < layer.batch ? row + k * kStep : row;
        at[k] = (slice.client * layer.batch + b) * layer.inputs + slice.first + i;
      }
      below.find(at, values);
      for (int k = 0; k < kAtOnce; ++k) {
        const int32_t b = row + k * kStep;
        if (b >= layer.batch) break;
        to[b * kInputs + i] = below.values[at[k]] = values[k];
      }
    }
  }

  // Finds a thread's part of a tile.
  HANSE_BOTH_SIDES void multiply(int32_t tile, int thread, Scratch& scratch) const {
    if (tile >= tiles()) return;
    const auto [row, column] = unit_tiles.split(tile);
    const int part = thread % kParts;
    Four values[Tile::kSamples], weights[Tile::kUnits];
    for (int s = 0; s < Tile::kSamples; ++s) {
      const int32_t b = row * Tile::kSamples + s;
      values[s] = of(layer.units + (b < layer.batch ? b : layer.batch - 1), part, scratch);
    }
    for (int u = 0; u < Tile::kUnits; ++u) {
      const int32_t unit = column * Tile::kUnits + u;
      weights[u] = of(unit < layer.units ? unit : layer.units - 1, part, scratch);
    }
    float* to = scratch.sums + thread / kParts * Tile::kValues * Tile::kRow + part;
    for (int t = 0; t < Tile::kValues; ++t) {
      const Four& x = values[t / Tile::kUnits];
      const Four& w = weights[t % Tile::kUnits];
      float sum = 0;
      for (int i = 0; i < 4; ++i) sum += x.values[i] * w.values[i];
      to[t * Tile::kRow] = sum;
    }
  }

  HANSE_BOTH_SIDES static Four of(int32_t row, int part, const Scratch& scratch) {
    return four(scratch.rows + row * HeadLayer::kInputs + part * 4);
  }

  // Adds the parts up.
  HANSE_BOTH_SIDES void put(int32_t first, int thread, const Scratch& scratch, float* to) const {
    const int32_t tile = first + thread / Tile::kValues, t = thread % Tile::kValues;
    if (thread >= kTiles * Tile::kValues || tile >= tiles()) return;
    const auto [row, column] = unit_tiles.split(tile);
    const int32_t b = row * Tile::kSamples + t / Tile::kUnits,
                  unit = column * Tile::kUnits + t % Tile::kUnits;
    if (b >= layer.batch || unit >= layer.units) return;
    float sum = 0;
    for (int part = 0; part < kParts; ++part) sum += scratch.sums[thread * Tile::kRow + part];
    to[b * layer.units + unit] = sum;
  }
};

}  // namespace hanse
