// The passes of group norm over an image in channels-last.
#pragma once

#include <cstdint>

#include "vector_families.hpp"

namespace hanse {

// The kernels of one family of processors. An image is [pixels, line], whose lines are whole
// (whole_lines()); what belongs to a channel is [line]. Every channel's sum takes the pixels in one
// order, so that all families have the same bits: kRun of them in float32, the runs in float64.
struct GroupNormKernels {
  static constexpr int64_t kRun = 32;

  // sum += x
  void (*add)(const float* x, int64_t pixels, int64_t line, double* sum);
  // sum += (x - mean)^2
  void (*add_squares)(const float* x, const float* mean, int64_t pixels, int64_t line, double* sum);

  // y <- relu(scale x + shift + other), NaN stays. `other` is none where it is null; it is
  // multiplied with other_scale unless that is null.
  struct Normalized {
    const float *x, *scale, *shift;
    const float *other = nullptr, *other_scale = nullptr;
  };
  void (*normalize)(const Normalized& n, int64_t pixels, int64_t line, float* y);

  // d <- 0 where gate <= 0, unless the gate is null; then sum += d, products += d (x - mean).
  void (*gate_and_add)(float* d, const float* gate, const float* x, const float* mean,
                       int64_t pixels, int64_t line, double* sum, double* products);

  // dx <- a d + b x + c
  void (*combine)(const float* d, const float* a, const float* x, const float* b, const float* c,
                  int64_t pixels, int64_t line, float* dx);
};

const GroupNormKernels& group_norm_kernels(VectorFamily family = fastest_family());

}  // namespace hanse
