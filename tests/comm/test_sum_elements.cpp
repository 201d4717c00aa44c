#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/comm/element.hpp"

namespace hanse {
namespace {

// Integers whose nearest double is a tie, or another power of two, and those of both ends.
std::vector<int64_t> awkward_integers() {
  std::vector<int64_t> values;
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  for (const int bits : {0, 1, 23, 31, 32, 33, 52, 53, 54, 55, 61, 62}) {
    for (int64_t near = -3; near <= 3; ++near) {
      values.push_back((int64_t{1} << bits) + near);
      values.push_back(-(int64_t{1} << bits) + near);
    }
  }
  for (int64_t near = 0; near < 2050; near += 41) {
    values.push_back(kMost - near);
    values.push_back(-kMost - 1 + near);
  }
  RandomStream stream(5, Purpose::kData);
  for (int i = 0; i < 2000; ++i) values.push_back(static_cast<int64_t>(stream.next()) >> (i % 64));
  return values;
}

TEST(TakeElements, RoundsAsTheConversionOfOneDoes) {
  const std::vector<int64_t> values = awkward_integers();
  for (const double unit : {1.0, 0x1p-44, 1 / 3.0}) {
    for (std::size_t n = 0; n <= 9; ++n) {
      for (std::size_t begin = 0; begin + n <= values.size(); ++begin) {
        std::vector<float> out(n + 1, 7);
        take_elements(ElementType::kInt64, reinterpret_cast<const std::byte*>(&values[begin]),
                      static_cast<int64_t>(n), unit, out.data());
        for (std::size_t i = 0; i < n; ++i) {
          const auto one = static_cast<float>(static_cast<double>(values[begin + i]) * unit);
          ASSERT_EQ(out[i], one) << values[begin + i] << " " << unit;
        }
        ASSERT_EQ(out[n], 7);
      }
    }
  }
}

TEST(TakeElements, CopiesFloats) {
  const float sum[] = {1, -2, std::numeric_limits<float>::infinity(), 0.1F, 5};
  float out[] = {0, 0, 0, 0, 7};
  take_elements(ElementType::kFloat, reinterpret_cast<const std::byte*>(sum), 4, 3, out);
  EXPECT_EQ(std::memcmp(sum, out, 4 * sizeof(float)), 0);
  EXPECT_EQ(out[4], 7);
}

}  // namespace
}  // namespace hanse
