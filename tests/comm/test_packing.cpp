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
    const auto limit = static_cast<int64_t>(uint64_t{1} << (8 * width - 1));  // width 8: the lowest
    const Values extremes{0, -1, 1, limit - 1, -limit, limit / 3, -(limit / 5), -1};
    for (std::size_t n = 0; n <= 17; ++n) {
      Values values;
      for (std::size_t i = 0; i < n; ++i) values.push_back(extremes[i % extremes.size()]);
      std::vector<std::byte> packed(8 * n);
      pack(values, width, packed.data());
      Values sum(n, 5);
      add_packed(packed.data(), width, sum);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(static_cast<uint64_t>(sum[i]), static_cast<uint64_t>(values[i]) + 5) << width;
      }
    }
  }
}

}  // namespace
}  // namespace hanse
