// Where a gradient goes. A stored gradient, a fused step of SGD and a record are the same operation
// on different targets, so that every backward pass is written once.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/model/gradient_record.hpp"
#include "tiles.hpp"

namespace hanse {

// row <- keep * row + scale * gradient, or the gradient to `record`.
struct GradientTarget {
  float* row = nullptr;  // [P]
  float keep = 0;        // 0: the old values are never read
  float scale = 1;
  GradientRecord* record = nullptr;

  // gradient <- g
  static GradientTarget store(std::span<float> gradient) { return {.row = gradient.data()}; }

  // row <- (1 - lr * weight_decay) row - lr * g
  static GradientTarget step(std::span<float> row, double lr, double weight_decay) {
    return {.row = row.data(),
            .keep = static_cast<float>(1.0 - lr * weight_decay),
            .scale = static_cast<float>(-lr)};
  }

  // record <- g, in factors
  static GradientTarget keep_in(GradientRecord& record) {
    record.clear();
    return {.record = &record};
  }

  // Applies the gradient of the `size` values from `offset`.
  void add(int64_t offset, const float* gradient, int64_t size) const {
    if (record != nullptr) {
      record->add_values(offset, {gradient, static_cast<std::size_t>(size)});
      return;
    }
    float* __restrict to = row + offset;
    if (keep == 0.0f) {
      for (int64_t i = 0; i < size; ++i) to[i] = scale * gradient[i];
    } else {
      for (int64_t i = 0; i < size; ++i) to[i] = keep * to[i] + scale * gradient[i];
    }
  }

  // Applies deltas^T inputs. `before(first output, outputs, first input, inputs)` is called for
  // every tile of the row before it changes.
  template <class Before>
  void add(const GradientRecord::Product& p, Before before) const {
    for_each_tile(weight_tiles(p.samples, p.out, p.in), p.out, p.in,
                  [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
                    before(o, n_out, i, n_in);
                    if (record != nullptr) return;
                    multiply(n_out, n_in, p.samples, scale, {p.deltas + o, p.out, CblasTrans},
                             {p.inputs + i, p.in}, keep, row + p.offset + o * p.in + i, p.in);
                  });
    if (record != nullptr) record->add_product(p);
  }

  void add(const GradientRecord::Product& p) const {
    add(p, [](int64_t, int64_t, int64_t, int64_t) {});
  }
};

}  // namespace hanse
