// Large numbers that become float32, which holds all whole numbers only up to 2^24, or bfloat16,
// which does up to 2^8, and the names of an array's elements in messages, as Python writes them.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/index.hpp"

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

// Pictures and NumPy's arrays have their channels last: [pixels, channels] of one sample becomes
// out [channels, pixels].
template <class T>
void put_channels_first(const T* sample, int64_t channels, int64_t pixels, T* out) {
  for (int64_t k = 0; k < channels; ++k) {
    for (int64_t p = 0; p < pixels; ++p) *out++ = sample[p * channels + k];
  }
}

// Counts, for each column, the numbers beyond 2^bits that a format cannot hold, and how many
// different ones stay different. Cost: a comparison a number; one beyond 2^bits takes two look-ups,
// and memory for the first 65,536 different ones of its column, 2^20 of all columns.
class RoundedNumbers {
 public:
  RoundedNumbers() = default;  // of float32
  // `bits`: the significant ones of the format, the first one included; at most 24.
  RoundedNumbers(int bits, std::string format)
      : bits_(bits), without_gap_(std::ldexp(1.0, bits)), format_(std::move(format)) {}

  void see(double value, int64_t column = 0) {
    if (to_index(column) >= seen_.size()) seen_.resize(to_index(column) + 1);
    ++seen_[to_index(column)];
    if (!(std::abs(value) <= without_gap_)) see_large(value, column);
  }

  // The columns with a number that the format cannot hold, in ascending order.
  std::vector<int64_t> columns() const;

  bool is_rounded(int64_t column) const {
    const auto found = large_.find(column);
    return found != large_.end() && found->second.rounded > 0;
  }

  // For a warning: "column 't': 40 of 40 numbers are not exact in float32, 40 different ones become
  // 1", and so on for the columns with such whole numbers, or with different numbers that become
  // one; empty: there are none. `name` gives a column's name in messages.
  std::string text(const std::function<std::string(int64_t column)>& name) const;

 private:
  struct Large {
    int64_t rounded = 0;
    bool whole = false;  // one of the rounded numbers is whole
    std::unordered_set<double> values;
    std::unordered_set<float> in_format;
  };

  float nearest(double value) const;  // in the format
  void see_large(double value, int64_t column);

  int bits_ = std::numeric_limits<float>::digits;
  double without_gap_ = std::ldexp(1.0, std::numeric_limits<float>::digits);
  std::string format_ = "float32";
  std::size_t kept_ = 0;       // different numbers, of all columns
  std::vector<int64_t> seen_;  // by column
  std::map<int64_t, Large> large_;
};

}  // namespace hanse
