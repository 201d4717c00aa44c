// Where a gradient goes. A stored gradient, a fused step of SGD and a record are the same operation
// on different targets, so that every backward pass is written once.
#pragma once

#include <cstdint>

#include "hanse/model/gradient_record.hpp"
#include "layer_kernels.hpp"

namespace hanse {

// A row that the gradient changes, or a record that keeps it.
struct GradientTarget {
  RowUpdate update;
  GradientRecord* record = nullptr;  // null: the row's

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
