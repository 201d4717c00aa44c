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

// sum += row. REQUIRES, as the other: is_exchanged(type).
void add_elements(ElementType type, const std::byte* row, int64_t count, std::byte* sum);

// out = the sum, integers times `unit`.
void take_elements(ElementType type, const std::byte* sum, int64_t count, double unit, float* out);

}  // namespace hanse
