// Names of an array's elements in messages, as Python writes them, and its large numbers.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hanse {

// The indices of element `place`, in the order of C, in an array of this shape.
inline std::vector<int64_t> indices_of(std::span<const int64_t> shape, int64_t place) {
  std::vector<int64_t> indices(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; place /= shape[axis]) {
    indices[axis] = place % shape[axis];
  }
  return indices;
}

// "x[3, 1]".
inline std::string element_name(const std::string& name, std::span<const int64_t> shape,
                                int64_t place) {
  return fmt::format("{}[{}]", name, fmt::join(indices_of(shape, place), ", "));
}

// "x[:, 1]": one value of every sample of this shape; "x" if a sample is one number.
inline std::string column_name(const std::string& name, std::span<const int64_t> sample,
                               int64_t place) {
  if (sample.empty()) return name;
  return fmt::format("{}[:, {}]", name, fmt::join(indices_of(sample, place), ", "));
}

// The whole number or, if a double cannot hold it, a near one that float32 cannot hold either, so
// that RoundedNumbers counts it. Beyond 2^53 the numbers of float32 are far apart.
template <std::integral T>
double counted_double(T value) {
  const auto nearest = static_cast<double>(value);
  const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);  // of what T holds
  const bool is_exact = nearest < beyond && static_cast<T>(nearest) == value;
  const bool in_float32 = static_cast<double>(static_cast<float>(nearest)) == nearest;
  return is_exact || !in_float32 ? nearest : std::nextafter(nearest, 0.0);
}

}  // namespace hanse
