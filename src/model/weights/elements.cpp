#include "weights/elements.hpp"

#include <cmath>
#include <cstring>

#include "hanse/base/index.hpp"
#include "hanse/base/short_floats.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

namespace {

template <class T>
T stored(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float value_at(Element element, const char* at) {
  switch (element) {
    case Element::kFloat: return stored<float>(at);
    case Element::kDouble: return static_cast<float>(stored<double>(at));
    case Element::kHalf: return static_cast<float>(half_value(stored<uint16_t>(at)));
    default: return bfloat16_value(stored<uint16_t>(at));
  }
}

// Calls f(address) for each value, in C's order.
template <class F>
void for_each_place(const StridedValues& tensor, const F& f) {
  std::vector<int64_t> index(tensor.shape.size());
  int64_t place = 0;
  for (int64_t left = size_of(tensor.shape); left > 0; --left) {
    f(tensor.bytes + place * bytes_of(tensor.element));
    for (std::size_t axis = index.size(); axis-- > 0;) {
      place += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      place -= tensor.strides[axis] * tensor.shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

int64_t bytes_of(Element element) {
  switch (element) {
    case Element::kFloat: return 4;
    case Element::kDouble: return 8;
    case Element::kHalf:
    case Element::kBfloat16: return 2;
    default: return 0;
  }
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * shape[axis];
  }
  return strides;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t count = 1;
  bool none = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return -1;
    none = none || extent == 0;
    if (extent > 0 && __builtin_mul_overflow(count, extent, &count)) return -1;
    if (count > kMost) return -1;
  }
  return none ? 0 : count;
}

std::vector<float> floats_of(const StridedValues& tensor) {
  std::vector<float> values(to_index(size_of(tensor.shape)));
  if (values.empty()) return values;
  if (tensor.element == Element::kFloat && tensor.strides == dense_strides(tensor.shape)) {
    std::memcpy(values.data(), tensor.bytes, values.size() * sizeof(float));
    return values;
  }
  auto value = values.begin();
  for_each_place(tensor, [&](const char* at) { *value++ = value_at(tensor.element, at); });
  return values;
}

double too_large_for_float(const StridedValues& tensor) {
  double found = 0;
  if (tensor.element != Element::kDouble || size_of(tensor.shape) == 0) return found;
  for_each_place(tensor, [&](const char* at) {
    const double value = stored<double>(at);
    if (found == 0 && std::isfinite(value) && std::isinf(static_cast<float>(value))) found = value;
  });
  return found;
}

}  // namespace hanse
