#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bfloat16_reference.hpp"
#include "hanse/base/subnormals.hpp"

namespace hanse {
namespace {

using testing::factor_values;
using testing::packed_product;
using testing::product_of;
using testing::ProductSize;
using testing::same_bits;
using testing::tested_kernels;

std::vector<ProductSize> awkward_sizes() {
  std::vector<ProductSize> sizes;
  for (const int64_t m : {1, 11, 12, 13, 16, 17, 33}) {
    for (const int64_t n : {1, 15, 16, 33, 65}) {
      for (const int64_t k : {1, 2, 31, 32, 33, 95}) sizes.push_back({m, n, k});
    }
  }
  return sizes;
}

std::string text_of(const ProductSize& size) {
  return std::to_string(size.m) + " x " + std::to_string(size.n) + " x " + std::to_string(size.k);
}

int64_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += same_bits(a[i], b[i]) ? 0 : 1;
  return count;
}

TEST(Bfloat16Kernels, EveryFamilyHasTheReferencesBits) {
  if (product_families().front() != ProductFamily::kAmx) {
    GTEST_LOG_(INFO) << "there is no AMX here: its tiles are left out";
  }
  for (const ProductSize& size : awkward_sizes()) {
    for (const int kind : {0, 1, 2}) {
      const auto a = factor_values(size.m * size.k, kind, 1);
      const auto b = factor_values(size.k * size.n, kind, 2);
      const auto expected = product_of(size, a, b);
      const FlushSubnormals flush;
      for (const auto& [name, kernels] : tested_kernels()) {
        for (const bool turned : {false, true}) {
          const auto found = packed_product(kernels, size, a, b, turned);
          ASSERT_EQ(differing(expected, found), 0)
              << name << ", " << text_of(size) << ", values of kind " << kind;
        }
      }
    }
  }
}

// Known sums, so that the reference itself is held to something.
TEST(Bfloat16Kernels, EvenAndOddProductsAreSummedApart) {
  const float large = 0x1p24F;
  // Even: 2^24 + 1 rounds to 2^24; odd: 1 + 1. In one chain each 1 would be lost.
  const std::vector<float> a{large, 1, 1, 1}, ones{1, 1, 1, 1};
  // A group of 32 is rounded before it meets the accumulator: 1 + 1 of the second one stay.
  std::vector<float> two_groups(64, 0);
  two_groups[0] = large;
  two_groups[32] = two_groups[34] = 1;
  for (const auto& [name, kernels] : tested_kernels()) {
    EXPECT_EQ(packed_product(kernels, {1, 1, 4}, a, ones, false)[0], large + 2);
    EXPECT_EQ(packed_product(kernels, {1, 1, 64}, two_groups, std::vector<float>(64, 1), false)[0],
              large + 2);
  }
}

TEST(Bfloat16Kernels, FactorsAreRoundedToNearestEven) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1 + 0x1p-8F,
                                  1 + 0x3p-8F,
                                  1 + 0x1.0002p-8F,
                                  -1 - 0x3p-8F,
                                  std::nextafterf(infinity, 0),
                                  -infinity,
                                  std::nextafterf(0x1p-126F, 0)};
  const std::vector<float> expected{1, 1 + 0x1p-6F, 1 + 0x1p-7F, -1 - 0x1p-6F, infinity, -infinity,
                                    0};
  for (const auto& [name, kernels] : tested_kernels()) {
    const FlushSubnormals flush;
    const auto found = packed_product(kernels, {7, 1, 1}, values, {1}, false);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(found[i], expected[i]) << i;
    const float nan = std::bit_cast<float>(0x7f800001U);  // whose upper half alone is infinite
    EXPECT_TRUE(std::isnan(packed_product(kernels, {1, 1, 1}, {nan}, {1}, false)[0]));
  }
}

// Sums below 2^-126 are flushed to a -0. A group of fewer than 32 products goes on with products of
// zeros, which make it 0; a whole group keeps it.
TEST(Bfloat16Kernels, AGroupIsFilledUpWithZeros) {
  constexpr float kLeast = 0x1p-126F;
  std::vector<float> filled(68, 0), whole(96, 0);
  filled[0] = whole[0] = kLeast;
  filled[32] = whole[32] = -1.5F * kLeast;  // the accumulator is -0 behind the second group
  filled[64] = filled[65] = whole[92] = whole[93] = kLeast;
  filled[66] = filled[67] = whole[94] = whole[95] = -1.5F * kLeast;
  for (const auto& a : {filled, whole}) {
    const auto k = std::ssize(a);
    const std::vector<float> ones(a.size(), 1);
    for (const auto& [name, kernels] : tested_kernels()) {
      const FlushSubnormals flush;
      AlignedFloats left(static_cast<std::size_t>(left_floats(1, k)));
      PackedPairs right(static_cast<std::size_t>(right_pairs(k, 1)));
      kernels.pack_left({a.data(), k}, 1, k, left.data());
      kernels.pack_right({ones.data(), 1}, k, 1, right.data());
      float c = -0.0F;
      kernels.multiply({1, 1, k, left.data(), right.data(), &c, 1, 1, 1});
      EXPECT_EQ(std::signbit(c), k % kBlockProducts == 0) << name;
    }
  }
}

TEST(Bfloat16Kernels, AProductIsScaledAndAddedToWhatIsKept) {
  const ProductSize size{17, 21, 40};
  const auto a = factor_values(size.m * size.k, 0, 1), b = factor_values(size.k * size.n, 0, 2);
  const auto before = factor_values(size.m * 32, 0, 3);
  const auto product = product_of(size, a, b);
  for (const auto& [name, kernels] : tested_kernels()) {
    AlignedFloats left(static_cast<std::size_t>(left_floats(size.m, size.k)));
    PackedPairs right(static_cast<std::size_t>(right_pairs(size.k, size.n)));
    kernels.pack_left({a.data(), size.k}, size.m, size.k, left.data());
    kernels.pack_right({b.data(), size.n}, size.k, size.n, right.data());
    std::vector<float> c = before;
    kernels.multiply(
        {size.m, size.n, size.k, left.data(), right.data(), c.data(), 32, -0.1F, 0.9F});
    for (int64_t i = 0; i < size.m; ++i) {
      for (int64_t j = 0; j < 32; ++j) {
        const auto at = static_cast<std::size_t>(i * 32 + j);
        const float expected =
            j < size.n ? std::fma(-0.1F, product[static_cast<std::size_t>(i * size.n + j)],
                                  0.9F * before[at])
                       : before[at];
        EXPECT_EQ(c[at], expected) << name;
      }
    }
  }
}

TEST(Bfloat16Kernels, AnEnvironmentsValueChoosesAmongThoseThatAreHere) {
  const auto& all = product_families();
  const auto chosen = [&](ProductFamily most) {
    for (const ProductFamily family : all) {
      if (family <= most) return family;
    }
    return ProductFamily::kPlain;
  };
  EXPECT_EQ(product_family_of({}), all.front());
  EXPECT_EQ(product_family_of("Cooperlake"), chosen(ProductFamily::kAvx512Bfloat16));
  EXPECT_EQ(product_family_of("SkylakeX"), chosen(ProductFamily::kAvx512));
  EXPECT_EQ(product_family_of("Haswell"), chosen(ProductFamily::kAvx2));
  EXPECT_EQ(product_family_of("Nehalem"), ProductFamily::kPlain);
}

}  // namespace
}  // namespace hanse
