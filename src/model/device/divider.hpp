// Division by a number that a kernel's threads share.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// n / divisor for 0 <= n < 2^31, as a product and a shift (Granlund and Montgomery 1994): GPUs have
// no instruction that divides.
class Divider {
 public:
  struct Split {
    int32_t quotient, rest;
  };

  Divider() = default;
  // REQUIRES: 0 < divisor < 2^31.
  Divider(int64_t divisor) : divisor_(static_cast<int32_t>(divisor)) {
    while (int64_t{1} << shift_ < divisor) ++shift_;
    const int64_t beyond = (int64_t{1} << shift_) - divisor;
    factor_ = static_cast<uint32_t>((beyond << 32) / divisor + 1);
  }

  HANSE_BOTH_SIDES operator int32_t() const { return divisor_; }

  HANSE_BOTH_SIDES Split split(int32_t n) const {
    const auto value = static_cast<uint32_t>(n);
    const auto high = static_cast<uint32_t>(uint64_t{value} * factor_ >> 32);
    const auto quotient = static_cast<int32_t>((high + value) >> shift_);
    return {quotient, n - quotient * divisor_};
  }

 private:
  int32_t divisor_ = 1;
  uint32_t factor_ = 1, shift_ = 0;
};

}  // namespace hanse
