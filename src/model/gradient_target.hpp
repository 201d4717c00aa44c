// Where a gradient goes. A stored gradient, a fused step of SGD and a record are the same operation
// on different targets, so that every backward pass is written once.
#pragma once

#include <cstdint>

#include "hanse/model/gradient_record.hpp"
#include "hanse/model/row_step.hpp"
#include "kernels/layer_kernels.hpp"
#include "sample_gradients.hpp"

namespace hanse {

// A row that the gradient changes, a record that keeps it, a step that moves the row by it, or the
// gradients of the samples apart.
struct GradientTarget {
  RowUpdate update;
  GradientRecord* record = nullptr;    // null: the row's
  RowStep* step = nullptr;             // null: as above
  SampleGradients* samples = nullptr;  // null: as above

  // Does anybody use the gradient of the tensor at `offset`?
  bool wants(int64_t offset) const { return step == nullptr || step->wants(offset); }

  // Applies the gradient of the `size` values from `offset`.
  void add(int64_t offset, const float* gradient, int64_t size) const {
    if (record != nullptr) {
      record->add_values(offset, {gradient, static_cast<std::size_t>(size)});
    } else if (step != nullptr) {
      step->apply(offset, gradient, size);
    } else {
      update.add(offset, gradient, size);
    }
  }

  // Applies the gradient of the bias at `offset` of the layer whose weight's gradient came last:
  // the sum of its deltas, for which `sum` [out] is room.
  void add_bias(int64_t offset, const float* deltas, int64_t rows, int64_t out, float* sum) const {
    if (samples != nullptr) return samples->add_bias(offset);
    sum_rows(deltas, rows, out, sum);
    add(offset, sum, out);
  }

  // Applies a weight's gradient; before w changes, dx [samples, in] <- deltas w unless dx is null.
  void add(const WeightGradient& g, const float* w, float* dx) const {
    if (dx == nullptr) return add(g);
    add(g, [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
      take_back_tile(g, w, o, n_out, i, n_in, dx);
    });
  }

  // Applies a weight's gradient; `before` as in RowUpdate.
  template <class... Before>
  void add(const WeightGradient& g, Before... before) const {
    if (step != nullptr) return add_to_step(g, before...);
    update.add(g, before...);
    if (record != nullptr) record->add_product(g);
    if (samples != nullptr) samples->add_product(g);
  }

 private:
  template <class... Before>
  void add_to_step(const WeightGradient& g, Before... before) const {
    const bool taken = step->take(g);
    if (taken && sizeof...(before) == 0) return;
    for_each_tile(g.samples, g.out, g.in, [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
      (before(o, n_out, i, n_in), ...);
      if (taken) return;
      float* part = step->part(n_out * n_in);
      multiply_tile(g, o, n_out, i, n_in, 1.0F, 0.0F, part, n_in);
      const int64_t begin = g.offset + o * g.in + i;
      if (n_in == g.in) return step->apply(begin, part, n_out * n_in);
      for (int64_t r = 0; r < n_out; ++r) step->apply(begin + r * g.in, part + r * n_in, n_in);
    });
  }
};

}  // namespace hanse
