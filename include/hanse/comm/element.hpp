// What the elements of a message are, and how they are combined.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hanse {

enum class ReduceOp { kSum, kMin, kMax };
enum class ElementType { kInt64, kDouble, kFloat, kByte };

template <class T>
constexpr ElementType element_type_of();
template <>
constexpr ElementType element_type_of<int64_t>() {
  return ElementType::kInt64;
}
template <>
constexpr ElementType element_type_of<double>() {
  return ElementType::kDouble;
}
template <>
constexpr ElementType element_type_of<float>() {
  return ElementType::kFloat;
}
template <>
constexpr ElementType element_type_of<std::byte>() {
  return ElementType::kByte;
}

constexpr int64_t element_bytes(ElementType type) {
  return type == ElementType::kByte ? 1 : type == ElementType::kFloat ? 4 : 8;
}

}  // namespace hanse
