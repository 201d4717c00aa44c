// How a step of training changes a row.
#pragma once

#include <cstdint>

#include "hanse/base/aligned.hpp"
#include "hanse/model/weight_gradient.hpp"

namespace hanse {

// A step that takes the gradient part by part, so that it is never stored as a whole: a weight's
// part is used while it is in the cache.
class RowStep {
 public:
  virtual ~RowStep() = default;
  // Moves the `size` values of the row from `offset` on by their gradient. It gets every value that
  // gradients train once a step.
  virtual void apply(int64_t offset, const float* gradient, int64_t size) = 0;

  // Does it use the gradient of the tensor at `offset`? If not, apply() need not get it.
  virtual bool wants(int64_t /*offset*/) const { return true; }
  // Takes the gradient of a dense layer's weight in factors; false: apply() shall get its parts.
  virtual bool take(const WeightGradient& /*product*/) { return false; }

  // Memory for the gradient of a part [size], until the next call.
  float* part(int64_t size) {
    if (static_cast<int64_t>(part_.size()) < size) part_.resize(static_cast<std::size_t>(size));
    return part_.data();
  }

 private:
  AlignedFloats part_;
};

}  // namespace hanse
