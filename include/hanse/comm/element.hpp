// The types of a message's elements, the operations that combine them, and the inner loops of sums
// over ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace hanse {

inline constexpr int64_t kByHost = -1;  // see Communicator::split()

enum class ReduceOp { kSum, kMin, kMax };
enum class ElementType { kInt64, kDouble, kFloat, kByte };

template <class T>
constexpr ElementType element_type_of() {
  if constexpr (std::is_same_v<T, int64_t>) return ElementType::kInt64;
  if constexpr (std::is_same_v<T, double>) return ElementType::kDouble;
  if constexpr (std::is_same_v<T, float>) return ElementType::kFloat;
  static_assert(std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                std::is_same_v<T, float> || std::is_same_v<T, std::byte>);
  return ElementType::kByte;
}

constexpr int64_t element_bytes(ElementType type) {
  return type == ElementType::kByte ? 1 : type == ElementType::kFloat ? 4 : 8;
}

// Is it a type that exchange() adds up?
constexpr bool is_exchanged(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kFloat;
}

// sum += row. REQUIRES, as take_elements() does: is_exchanged(type).
void add_elements(ElementType type, const std::byte* row, int64_t count, std::byte* sum);

// out = the sum; integers are multiplied by `unit`.
void take_elements(ElementType type, const std::byte* sum, int64_t count, double unit, float* out);

}  // namespace hanse
