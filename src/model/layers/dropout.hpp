// Dropout from a client's random stream.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"

namespace hanse {

// A value is dropped when its 16 random bits are below `threshold`: the share is a multiple of
// 2^-16, less than 1. `scale` keeps the mean, exactly for the share that is really dropped.
struct DropoutRule {
  explicit DropoutRule(double share)
      : threshold(static_cast<int32_t>(std::min(std::lround(share * 65536.0), 65535L))),
        scale(65536.0F / static_cast<float>(65536 - threshold)) {}

  int32_t threshold;
  float scale;
};

// Makes each value 0 with probability `share`, else what keeps the mean 1.
inline void draw_mask(double share, RandomStream& noise, std::span<float> mask) {
  const DropoutRule rule(share);
  std::vector<uint16_t> bits(mask.size());
  noise.fill({reinterpret_cast<uint8_t*>(bits.data()), bits.size() * sizeof(uint16_t)});
  std::transform(bits.begin(), bits.end(), mask.begin(),
                 [&](uint16_t value) { return value >= rule.threshold ? rule.scale : 0.0F; });
}

// to <- x times a mask, entry by entry; to may be x.
inline void apply_mask(const float* x, const float* mask, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] = x[i] * mask[i];
}

// The gradient through ReLU and dropout: an output above zero was kept, so no mask is needed.
inline void activation_backward(const float* output, int64_t size, float scale, float* delta) {
  for (int64_t i = 0; i < size; ++i) delta[i] = output[i] > 0.0f ? delta[i] * scale : 0.0f;
}

}  // namespace hanse
