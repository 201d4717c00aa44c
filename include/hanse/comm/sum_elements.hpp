// The inner loops of sums over ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hanse/comm/element.hpp"

namespace hanse {

// Is it a type that exchange() adds up?
constexpr bool is_exchanged(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kFloat;
}

// sum += row. REQUIRES, as take_elements() does: is_exchanged(type).
void add_elements(ElementType type, const std::byte* row, int64_t count, std::byte* sum);

// out = the sum; integers are multiplied by `unit`.
void take_elements(ElementType type, const std::byte* sum, int64_t count, double unit, float* out);

}  // namespace hanse
