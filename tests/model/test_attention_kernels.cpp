// The kernels of attention and layer norm, for every family of processors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/base/short_floats.hpp"
#include "model/kernels/attention_kernels.hpp"

namespace hanse {
namespace {

using Floats = std::vector<float>;

constexpr float kBehind = 1234.5F;  // stands where nothing may be written

Floats normal_values(int64_t n, uint64_t seed, double scale = 1) {
  RandomStream random(seed, Purpose::kData);
  Floats values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(scale * random.normal()));
  return values;
}

Floats behind(int64_t n) { return Floats(static_cast<std::size_t>(n), kBehind); }

struct Shape {
  int64_t length, width;
  bool causal = false, drops = false, narrow = false;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int64_t length : {1, 3, 12, 13, 17, 33, 80}) {
    for (const int64_t width : {1, 4, 6, 16, 21, 70}) {
      for (int kind = 0; kind < 8; ++kind) {
        all.push_back({length, width, (kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0});
      }
    }
  }
  return all;
}

std::string text(const Shape& s) {
  return std::to_string(s.length) + " x " + std::to_string(s.width) + (s.causal ? " causal" : "") +
         (s.drops ? " drops" : "") + (s.narrow ? " narrow" : "");
}

// A head between others: vectors of q, k and v are 3 width + 5 floats apart.
struct HeadPass {
  HeadPass(const Shape& s, VectorFamily family, double scale = 1) : shape(s) {
    const int64_t stride = 3 * s.width + 5, size = s.length * stride;
    const AttentionKernels& kernels = attention_kernels(family);
    qkv = normal_values(size + 16, 1, scale);
    deltas = normal_values(s.length * (s.width + 3) + 16, 2);
    mask = normal_values(s.length * s.length, 3);
    if (s.narrow) {
      kernels.round(qkv.data(), size, qkv.data());
      kernels.round(deltas.data(), std::ssize(deltas), deltas.data());
    }
    shares = behind(s.length * whole_lines(s.length));
    y = evaluated = behind(s.length * (s.width + 3));
    gradient = behind(size);
    room = behind(room_floats(s.length, s.width));
    AttentionHead head{.length = s.length,
                       .width = s.width,
                       .stride = stride,
                       .q = qkv.data(),
                       .k = qkv.data() + s.width,
                       .v = qkv.data() + 2 * s.width,
                       .scale = 1 / std::sqrt(static_cast<float>(s.width)),
                       .causal = s.causal,
                       .narrow = s.narrow,
                       .mask = s.drops ? mask.data() : nullptr};
    kernels.attend(head, evaluated.data(), s.width + 3, room.data());
    head.shares = shares.data();
    kernels.attend(head, y.data(), s.width + 3, room.data());
    kernels.attend_back(head,
                        {.y = deltas.data(),
                         .y_stride = s.width + 3,
                         .q = gradient.data(),
                         .k = gradient.data() + s.width,
                         .v = gradient.data() + 2 * s.width},
                        room.data());
  }

  float value(const Floats& of, int64_t row, int64_t stride, int64_t column) const {
    return of[static_cast<std::size_t>(row * stride + column)];
  }

  Shape shape;
  Floats qkv, deltas, mask, shares, y, evaluated, gradient, room;
};

TEST(AttentionKernels, FamiliesHaveTheSameBits) {
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(text(s));
    const HeadPass expected(s, VectorFamily::kPlain);
    EXPECT_EQ(expected.evaluated, expected.y);
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(name_of(family));
      const HeadPass found(s, family);
      EXPECT_EQ(found.shares, expected.shares);
      EXPECT_EQ(found.y, expected.y);
      EXPECT_EQ(found.gradient, expected.gradient);
    }
  }
}

TEST(AttentionKernels, NothingElseIsWritten) {
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(text(s));
    for (const VectorFamily family : families()) {
      const HeadPass found(s, family);
      const int64_t stride = 3 * s.width + 5;
      for (int64_t i = 0; i < s.length; ++i) {
        for (int64_t c = s.width; c < s.width + 3; ++c) {
          ASSERT_EQ(found.value(found.y, i, s.width + 3, c), kBehind);
        }
        for (int64_t c = 3 * s.width; c < stride; ++c) {
          ASSERT_EQ(found.value(found.gradient, i, stride, c), kBehind);
        }
      }
    }
  }
}

// The shares of a position are positive, and sum to 1; behind them are zeros.
TEST(AttentionKernels, SharesAreAPartOfOne) {
  for (const Shape& s : shapes()) {
    const HeadPass found(s, fastest_family());
    const int64_t line = whole_lines(s.length);
    for (int64_t i = 0; i < s.length; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < line; ++j) {
        const float share = found.value(found.shares, i, line, j);
        if (j < (s.causal ? i + 1 : s.length)) {
          ASSERT_GT(share, 0);
        } else {
          ASSERT_EQ(share, 0);
        }
        sum += share;
      }
      ASSERT_NEAR(sum, 1, 1e-6);
    }
  }
}

// Every product of a narrow head is the sum of rounded factors in ascending order.
TEST(AttentionKernels, NarrowHeadsRoundTheirFactors) {
  for (const bool drops : {false, true}) {
    const Shape s{17, 6, true, drops, true};
    const HeadPass found(s, fastest_family());
    const auto rounded = [](float value) { return bfloat16_value(bfloat16_bits(value)); };
    const int64_t line = whole_lines(s.length), stride = 3 * s.width + 5;
    for (int64_t i = 0; i < s.length; ++i) {
      for (int64_t c = 0; c < s.width; ++c) {
        float y = 0, dv = 0;
        for (int64_t j = 0; j < s.length; ++j) {
          const auto factor = [&](int64_t a, int64_t b) {
            const float mask = drops ? found.value(found.mask, a, s.length, b) : 1;
            return rounded(found.value(found.shares, a, line, b) * mask);
          };
          y = std::fma(factor(i, j), found.value(found.qkv, j, stride, 2 * s.width + c), y);
          dv = std::fma(factor(j, i), found.value(found.deltas, j, s.width + 3, c), dv);
        }
        EXPECT_EQ(found.value(found.y, i, s.width + 3, c), y);
        EXPECT_EQ(found.value(found.gradient, i, stride, 2 * s.width + c), dv);
      }
    }
  }
}

// Scores of thousands give shares of 0 and 1, and NaN stays NaN.
TEST(AttentionKernels, ScoresMayBeLarge) {
  for (const VectorFamily family : families()) {
    const HeadPass found({17, 6}, family, 1e3);
    for (const float y : found.evaluated) EXPECT_TRUE(std::isfinite(y));
    const HeadPass none({17, 6}, family, std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(std::isnan(none.y[0]));
    EXPECT_TRUE(std::isnan(none.gradient[0]));
  }
}

struct NormPass {
  NormPass(int64_t rows, int64_t width, bool drops, VectorFamily family) {
    const AttentionKernels& kernels = attention_kernels(family);
    const int64_t size = rows * width;
    x = normal_values(size, 1);
    added = normal_values(size, 2);
    mask = normal_values(size, 3);
    weight = normal_values(width, 4);
    const Floats bias = normal_values(width, 5), delta = normal_values(size, 6);
    normal = y = dz = behind(size + 1);
    inverses = behind(rows + 1);
    sums = products = behind(width + 1);
    kernels.normalize({rows, width, x.data(), added.data(), drops ? mask.data() : nullptr,
                       weight.data(), bias.data(), 1e-5F, normal.data(), inverses.data(),
                       y.data()});
    kernels.normalize_back(
        {rows, width, delta.data(), normal.data(), inverses.data(), weight.data(), dz.data()});
    kernels.sum_columns(rows, width, delta.data(), normal.data(), sums.data(), products.data());
  }

  Floats x, added, mask, weight, normal, inverses, y, dz, sums, products;
};

TEST(LayerNormKernels, FamiliesHaveTheSameBits) {
  for (const int64_t rows : {1, 5}) {
    for (const int64_t width : {1, 3, 6, 15, 16, 17, 31, 32, 64, 67, 130}) {
      for (const bool drops : {false, true}) {
        const NormPass expected(rows, width, drops, VectorFamily::kPlain);
        for (const VectorFamily family : families()) {
          SCOPED_TRACE(std::string(name_of(family)) + " " + std::to_string(width));
          const NormPass found(rows, width, drops, family);
          EXPECT_EQ(found.normal, expected.normal);
          EXPECT_EQ(found.inverses, expected.inverses);
          EXPECT_EQ(found.y, expected.y);
          EXPECT_EQ(found.dz, expected.dz);
          EXPECT_EQ(found.sums, expected.sums);
          EXPECT_EQ(found.products, expected.products);
          for (const Floats* all : {&found.y, &found.dz, &found.sums, &found.inverses}) {
            EXPECT_EQ(all->back(), kBehind);
          }
        }
      }
    }
  }
}

// Rows of n have mean 0 and variance 1 but for epsilon, and dz is orthogonal to both.
TEST(LayerNormKernels, RowsHaveMeanZeroAndVarianceOne) {
  const int64_t rows = 4, width = 37;
  const NormPass found(rows, width, true, fastest_family());
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0, square = 0, of_dz = 0, along = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const double n = found.normal[place], dz = found.dz[place];
      sum += n;
      square += n * n;
      of_dz += dz;
      along += dz * n;
    }
    EXPECT_NEAR(sum, 0, 1e-5);
    EXPECT_NEAR(square / width, 1, 1e-4);
    EXPECT_NEAR(of_dz, 0, 1e-5);
    EXPECT_NEAR(along, 0, 1e-3);
  }
}

}  // namespace
}  // namespace hanse
