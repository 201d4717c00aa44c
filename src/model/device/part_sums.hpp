// Sums that another kernel left in parts.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// Sums that lie `between` values apart in each of `parts` parts, which lie `step` values apart.
struct PartSums {
  static constexpr int kParts = 13;  // read at once: all of 784 inputs, in HeadLayer's slices

  int32_t parts;
  int32_t step, between;

  // sums[k] <- from[k between] + from[step + k between] + ..., in the parts' order. A part has
  // `left` values; sums beyond them are 0.
  template <int kSums>
  HANSE_BOTH_SIDES void add(const float* from, int64_t left, float (&sums)[kSums]) const {
    for (int k = 0; k < kSums; ++k) {
      sums[k] = parts == 1 && k * between < left ? from[k * between] : 0;
    }
    if (parts == 1) return;
    for (int32_t part = 0; part < parts; part += kParts) {
      float terms[kParts][kSums];
      for (int p = 0; p < kParts; ++p) {
        for (int k = 0; k < kSums; ++k) {
          terms[p][k] = part + p < parts && k * between < left ? from[k * between] : 0;
        }
        from += step;
      }
      for (int p = 0; p < kParts; ++p) {
        for (int k = 0; k < kSums; ++k) sums[k] += terms[p][k];
      }
    }
  }
};

}  // namespace hanse
