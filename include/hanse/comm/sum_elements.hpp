// The inner loops of sums over ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hanse/comm/element.hpp"

namespace hanse {

// What exchange() adds up.
constexpr bool is_exchanged(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kFloat;
}

// sum += row, and the row is zero. REQUIRES, as the other: is_exchanged(type).
void add_and_clear(ElementType type, std::byte* row, int64_t count, std::byte* sum);

// out = the sum, integers times `unit`, and the sum is zero.
void take_and_clear(ElementType type, std::byte* sum, int64_t count, double unit, float* out);

}  // namespace hanse
