#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "comm/packing.hpp"

namespace hanse {
namespace {

using Values = std::vector<int64_t>;

TEST(Packing, WidthHoldsTheLargestValueAndItsSign) {
  EXPECT_EQ(packed_width(Values{}), 1);
  EXPECT_EQ(packed_width(Values{0, -1, 127, -128}), 1);
  for (int64_t width = 1; width < 8; ++width) {
    const int64_t limit = int64_t{1} << (8 * width - 1);
    EXPECT_EQ(packed_width(Values{3, limit - 1, 0}), width);
    EXPECT_EQ(packed_width(Values{3, -limit, 0}), width);
    EXPECT_EQ(packed_width(Values{3, limit}), width + 1);
    EXPECT_EQ(packed_width(Values{3, -limit - 1}), width + 1);
  }
  EXPECT_EQ(packed_width(Values{std::numeric_limits<int64_t>::min()}), 8);
}

TEST(Packing, AddsWhatWasPacked) {
  for (int64_t width = 1; width <= 8; ++width) {
    const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - 8 * width);
    const Values extremes{0, -1, 1, most, -most - 1, most / 3, -(most / 5), -1};
    for (std::size_t n = 0; n <= 17; ++n) {
      Values values;
      for (std::size_t i = 0; i < n; ++i) values.push_back(extremes[i % extremes.size()]);
      std::vector<std::byte> packed(8 * n);
      pack(values, width, packed.data());
      Values sum, expected;
      for (const int64_t value : values) {
        sum.push_back(value > 0 ? -5 : 5);  // stays in the range
        expected.push_back(value + sum.back());
      }
      add_packed(packed.data(), width, sum);
      EXPECT_EQ(sum, expected) << width;
    }
  }
}

}  // namespace
}  // namespace hanse
