// What is added to a sum of updates as integers, and one sum to another.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

void add_three(UpdateSum& sum, int64_t n) {
  RandomStream stream(1, Purpose::kData);
  Row row(static_cast<std::size_t>(n));
  for (const double coefficient : {0.25, -0.5, 0.125}) {
    for (float& value : row) value = static_cast<float>(stream.normal());
    sum.add(row, coefficient);
  }
}

// 64 random bits beside each entry, which cancel: in any order with the updates, and in parts.
TEST(UpdateSum, TakesIntegersThatCancel) {
  for (const int64_t n : {1, 15, 16, 17, 1000}) {
    std::vector<int64_t> masks, back;
    RandomStream stream(9, Purpose::kData);
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t mask = stream.next();
      masks.push_back(static_cast<int64_t>(mask));
      back.push_back(static_cast<int64_t>(-mask));
    }
    UpdateSum plain(n, 4, Reduction::kExact), masked(n, 4, Reduction::kExact);
    add_three(plain, n);
    masked.add_integers(masks);
    add_three(masked, n);
    const auto part = static_cast<std::size_t>(n / 3);
    masked.add_integers(std::span(back).subspan(part), n / 3);
    masked.add_integers(std::span(back).first(part));
    Row expected(static_cast<std::size_t>(n)), found(expected.size());
    plain.take(expected);
    masked.take(found);
    EXPECT_EQ(found, expected) << n;
  }
}

TEST(UpdateSum, HasUnitsOfTwoToTheMinus44) {
  UpdateSum sum(3, 4, Reduction::kExact);
  const int64_t units[] = {int64_t{1} << 44, -(int64_t{1} << 43)};
  sum.add_integers(units, 1);
  EXPECT_EQ(sum.integers(1, 2)[1], units[1]);
  Row out(3);
  sum.take(out);
  EXPECT_EQ(out, (Row{0, 1, -0.5F}));
}

TEST(UpdateSum, AddsAnotherSum) {
  for (const Reduction reduction : {Reduction::kExact, Reduction::kFast}) {
    UpdateSum one(3, 4, reduction), other(3, 4, reduction), none(3, 4, reduction);
    one.add(Row{1, 2, 3}, 1);
    none.add(Row{5, 5, 5}, 1);
    none.clear();  // its memory still has them
    other.add(Row{8, -4, 0.5F}, 1);
    one.add(other);
    one.add(none);
    Row out(3), rest(3);
    one.take(out);
    other.take(rest);
    EXPECT_EQ(out, (Row{9, -2, 3.5F}));
    EXPECT_EQ(rest, (Row{8, -4, 0.5F}));
  }
}

}  // namespace
}  // namespace hanse
