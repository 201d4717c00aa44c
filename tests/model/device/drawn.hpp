// Values for tests of what devices compute.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include <ATen/ATen.h>

#include "hanse/base/random.hpp"

namespace hanse {

inline std::size_t to_size(int64_t n) { return static_cast<std::size_t>(n); }

// Normal values, multiples of `step`; 0: whatever they are.
inline at::Tensor draw(RandomStream& stream, at::IntArrayRef shape, double step) {
  at::Tensor values = at::empty(shape, at::kFloat);
  for (float& value : std::span(values.data_ptr<float>(), to_size(values.numel()))) {
    const double drawn = stream.normal();
    value = static_cast<float>(step > 0 ? std::round(drawn / step) * step : drawn / 2);
  }
  return values;
}

}  // namespace hanse
