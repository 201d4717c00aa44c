// Types of numbers in files of weights.
#pragma once

#include <cstdint>
#include <vector>

namespace hanse {

enum class Element { kFloat, kDouble, kHalf, kBfloat16, kInteger };

// Bytes of a value; 0 for integers, which are not read.
int64_t bytes_of(Element element);

// A tensor in memory, in any strides.
struct StridedValues {
  Element element = Element::kFloat;
  const char* bytes = nullptr;  // of the value at index 0 along all axes
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in values
};

// Its values in C's order. REQUIRES: no integers; all values lie in memory.
std::vector<float> floats_of(const StridedValues& tensor);

// The first finite value that is infinite as float32; 0: there is none. REQUIRES: as floats_of().
double too_large_for_float(const StridedValues& tensor);

// The strides of C's order.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);

// The number of values, or -1: an extent is negative, or more than 2^62.
int64_t count_of(const std::vector<int64_t>& shape);

}  // namespace hanse
