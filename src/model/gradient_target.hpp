// Where a gradient goes. A stored gradient and a fused step of SGD are the same operation on
// different rows, so that every backward pass is written once.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// row <- keep * row + scale * gradient
struct GradientTarget {
  float* row = nullptr;  // [P]
  float keep = 0;        // 0: the old values are never read
  float scale = 1;

  // gradient <- g
  static GradientTarget store(std::span<float> gradient) { return {gradient.data(), 0.0f, 1.0f}; }

  // row <- (1 - lr * weight_decay) row - lr * g
  static GradientTarget step(std::span<float> row, double lr, double weight_decay) {
    return {row.data(), static_cast<float>(1.0 - lr * weight_decay), static_cast<float>(-lr)};
  }

  // Applies the gradient of the `size` values from `offset`.
  void add(int64_t offset, const float* gradient, int64_t size) const {
    float* __restrict to = row + offset;
    if (keep == 0.0f) {
      for (int64_t i = 0; i < size; ++i) to[i] = scale * gradient[i];
    } else {
      for (int64_t i = 0; i < size; ++i) to[i] = keep * to[i] + scale * gradient[i];
    }
  }
};

}  // namespace hanse
