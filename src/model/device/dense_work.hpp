// What NetworkGradient does for dense layers besides products. All tensors have less than 2^31
// values.
#pragma once

#include <cstdint>

#include "divider.hpp"
#include "hanse/base/both_sides.hpp"

namespace hanse {

// The samples of a step. An item is a value.
struct SamplesWork {
  Divider width;  // values a sample
  int64_t batch;
  const float* features;  // [samples, width]
  const int64_t* places;  // [C, B]
  float* values;          // [C, B, width]

  int64_t items(int64_t clients) const { return clients * batch * width; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const auto [sample, i] = width.split(static_cast<int32_t>(item));
    values[item] = features[places[sample] * width + i];
  }
};

// x <- relu(x + bias) mask, where x is the sum of its parts. An item is a value.
struct UnitsWork {
  Divider batch, units;
  int32_t parts;
  const float* found;  // [C, parts, B, units]; one part may be the values
  float* values;       // [C, B, units]
  const float* mask;   // [C, B, units]; null: no dropout
  const float* bias;   // of each client, `bias_stride` further, [units]; null: none
  int64_t bias_stride;

  int64_t items(int64_t clients) const { return clients * batch * units; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const int32_t at[] = {static_cast<int32_t>(item)};
    float value[1];
    find(at, value);
    values[item] = value[0];
  }

  // Some values at once.
  template <int kItems>
  HANSE_BOTH_SIDES void find(const int32_t (&at)[kItems], float (&to)[kItems]) const {
    constexpr int kAtOnce = 4;  // parts
    const int32_t n = batch * units;
    const float* from[kItems];
    float shifts[kItems], scales[kItems], sums[kItems] = {};
    for (int k = 0; k < kItems; ++k) {
      const auto [sample, unit] = units.split(at[k]);
      const int32_t client = batch.split(sample).quotient;
      from[k] = found + client * (parts - 1) * n + at[k];
      shifts[k] = bias != nullptr ? bias[client * bias_stride + unit] : 0;
      scales[k] = mask != nullptr ? mask[at[k]] : 1;
    }
    for (int32_t part = 0; part < parts; part += kAtOnce) {
      float terms[kAtOnce][kItems];
      for (int p = 0; p < kAtOnce; ++p) {
        for (int k = 0; k < kItems; ++k) {
          terms[p][k] = part + p < parts ? from[k][(part + p) * n] : 0;
        }
      }
      for (int p = 0; p < kAtOnce; ++p) {
        for (int k = 0; k < kItems; ++k) sums[k] += terms[p][k];
      }
    }
    for (int k = 0; k < kItems; ++k) {
      const float value = sums[k] + shifts[k];
      to[k] = (value <= 0 ? 0 : value) * scales[k];
    }
  }
};

// The way back, and the gradient of the bias. An item is a unit of a client, of all b.
struct UnitsBackWork {
  static constexpr int kAtOnce = 8;

  Divider units;
  int32_t batch;
  const float* values;   // that UnitsWork left
  const float* mask;     // its
  float* delta;          // [C, B, units] gradient of those values, then of the sums
  float* bias_gradient;  // of each client, `bias_stride` further, [units]; null: none
  int64_t bias_stride;

  int64_t items(int64_t clients) const { return clients * units; }

  HANSE_BOTH_SIDES void operator()(int64_t item) const {
    const auto [client, unit] = units.split(static_cast<int32_t>(item));
    const int32_t first = client * batch * units + unit;
    float sum = 0;
    for (int32_t b = 0; b < batch; b += kAtOnce) {
      float gradients[kAtOnce];
      for (int32_t k = 0; k < kAtOnce; ++k) {
        const int32_t at = first + (b + k) * units;
        const bool is_there = b + k < batch;
        const float value = is_there ? values[at] : 0, gradient = is_there ? delta[at] : 0;
        gradients[k] = before(value, is_there ? scale_at(at) : 1, gradient);
      }
      for (int32_t k = 0; k < kAtOnce; ++k) {
        if (b + k < batch) delta[first + (b + k) * units] = gradients[k];
        sum += gradients[k];
      }
    }
    if (bias_gradient != nullptr) bias_gradient[client * bias_stride + unit] = sum;
  }

  HANSE_BOTH_SIDES float scale_at(int32_t at) const { return mask != nullptr ? mask[at] : 1; }

  // The gradient of a sum, from that of its value.
  HANSE_BOTH_SIDES static float before(float value, float scale, float gradient) {
    return value <= 0 ? 0 : gradient * scale;
  }
};

}  // namespace hanse
