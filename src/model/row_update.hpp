// What a gradient does to a row of parameters.
#pragma once

#include <cstdint>

#include "hanse/model/weight_gradient.hpp"
#include "tiles.hpp"

namespace hanse {

// row <- keep row + scale gradient, part by part.
struct RowUpdate {
  float* row = nullptr;  // [P]
  float keep = 0;        // 0: the old values are never read
  float scale = 1;

  // Of the `size` values from `offset`. `gradient` may be that part of the row itself.
  void add(int64_t offset, const float* gradient, int64_t size) const {
    float* to = row + offset;
    if (keep == 0.0f) {
      for (int64_t i = 0; i < size; ++i) to[i] = scale * gradient[i];
    } else {
      for (int64_t i = 0; i < size; ++i) to[i] = keep * to[i] + scale * gradient[i];
    }
  }

  // Of a part of a weight: outputs [o, o + n_out), inputs [i, i + n_in).
  void add_tile(const WeightGradient& g, int64_t o, int64_t n_out, int64_t i, int64_t n_in) const {
    multiply(n_out, n_in, g.samples, scale, {g.deltas + o, g.out, CblasTrans}, {g.inputs + i, g.in},
             keep, row + g.offset + o * g.in + i, g.in);
  }

  void add(const WeightGradient& g) const {
    for_each_tile(
        weight_tiles(g.samples, g.out, g.in), g.out, g.in,
        [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) { add_tile(g, o, n_out, i, n_in); });
  }
};

}  // namespace hanse
