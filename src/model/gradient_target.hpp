// Where a gradient goes. A stored gradient, a fused step of SGD and a record are the same operation
// on different targets, so that every backward pass is written once.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/model/gradient_record.hpp"
#include "layer_kernels.hpp"

namespace hanse {

// A row that the gradient changes, or a record that keeps it.
struct GradientTarget {
  RowUpdate update;
  GradientRecord* record = nullptr;  // null: the row's

  // gradient <- g
  static GradientTarget store(std::span<float> gradient) {
    return {.update = {.row = gradient.data()}};
  }

  // row <- (1 - lr * weight_decay) row - lr * g
  static GradientTarget step(std::span<float> row, double lr, double weight_decay) {
    return {.update = {.row = row.data(),
                       .keep = static_cast<float>(1.0 - lr * weight_decay),
                       .scale = static_cast<float>(-lr)}};
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
    } else {
      update.add(offset, gradient, size);
    }
  }

  // Applies a weight's; `before` as in RowUpdate.
  template <class... Before>
  void add(const WeightGradient& g, Before... before) const {
    update.add(g, before...);
    if (record != nullptr) record->add_product(g);
  }
};

}  // namespace hanse
