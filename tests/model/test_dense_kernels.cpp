// Products of few rows with a weight against plain loops in float64. All values are small whole
// numbers and the scales powers of two: every sum is exact. Other values show that all families add
// in one order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/kernels/layer_kernels.hpp"

namespace hanse {
namespace {

struct Sizes {
  int64_t rows, out, in;
};

// Rows and outputs that make parts of all sizes, inputs with single vectors and single values
// behind the last four, and with more than a block.
std::vector<Sizes> all_sizes() {
  std::vector<Sizes> sizes = {{20, 2048, 3136}, {10, 10, 784}, {7, 11, 1024}, {6, 4, 2049}};
  for (int64_t in = 1; in <= 33; ++in) sizes.push_back({in % 7 + 1, in % 11 + 1, in});
  for (int64_t rows = 1; rows <= 12; ++rows) {  // with each number of outputs of a tile
    for (const int64_t out : {2, 3, 4, 5, 6, 8, 10}) sizes.push_back({rows, out, 100});
  }
  for (const int64_t rows : {1, 2, 3, 5, 6, 7, 12, 13, 17, 23, 63, 64}) {
    sizes.push_back({rows, 61, 80});
    sizes.push_back({rows, 129, 64});
    sizes.push_back({rows, 3, 16});
  }
  return sizes;
}

std::vector<float> whole_numbers(int64_t n, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(random.below(9)) - 4.0F);
  return values;
}

TEST(DenseKernels, AddTheProductOfPlainLoops) {
  for (const auto& [rows, out, in] : all_sizes()) {
    SCOPED_TRACE(::testing::PrintToString(std::vector{rows, out, in}));
    const auto x = whole_numbers(rows * in, 1), w = whole_numbers(out * in, 2);
    const auto before = whole_numbers(rows * out, 3);
    auto expected = before;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < in; ++i) {
          sum += double{x[std::size_t(r * in + i)]} * double{w[std::size_t(o * in + i)]};
        }
        expected[std::size_t(r * out + o)] += static_cast<float>(sum);
      }
    }
    for (const VectorFamily family : families()) {
      auto y = before;
      dense_kernels(family).add_product(rows, out, in, x.data(), w.data(), y.data());
      EXPECT_EQ(y, expected) << name_of(family);
    }
  }
}

struct Descent {
  std::vector<float> to, dx;
};

Descent plain_descent(const Sizes& s, const std::vector<float>& d, const std::vector<float>& x,
                      const std::vector<float>& w, const std::vector<float>& before, float keep,
                      float scale) {
  Descent result{std::vector<float>(w.size()), std::vector<float>(x.size())};
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t o = 0; o < s.out; ++o) {
      const float delta = d[std::size_t(r * s.out + o)];
      for (int64_t i = 0; i < s.in; ++i) {
        result.dx[std::size_t(r * s.in + i)] += delta * w[std::size_t(o * s.in + i)];
        result.to[std::size_t(o * s.in + i)] += delta * x[std::size_t(r * s.in + i)];
      }
    }
  }
  for (std::size_t i = 0; i < w.size(); ++i) {
    result.to[i] = scale * result.to[i] + (keep == 0 ? 0.0F : keep * before[i]);
  }
  return result;
}

// The tiles that cover a whole weight.
std::vector<WeightTile> tiles(const Sizes& s) {
  std::vector<WeightTile> found;
  const auto& [zero, outputs, first, inputs] = kDenseTile;
  for (int64_t o = 0; o < s.out; o += outputs) {
    for (int64_t i = 0; i < s.in; i += inputs) {
      found.push_back({o, std::min(outputs, s.out - o), i, std::min(inputs, s.in - i)});
    }
  }
  return found;
}

TEST(DenseKernels, DescendAsPlainLoops) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Sizes& s : all_sizes()) {
    SCOPED_TRACE(::testing::PrintToString(std::vector{s.rows, s.out, s.in}));
    const auto d = whole_numbers(s.rows * s.out, 4), x = whole_numbers(s.rows * s.in, 5);
    const auto w = whole_numbers(s.out * s.in, 6), other = whole_numbers(s.out * s.in, 7);
    const WeightGradient g{.offset = 0,
                           .out = s.out,
                           .in = s.in,
                           .samples = s.rows,
                           .deltas = d.data(),
                           .inputs = x.data()};
    const auto expect = [&](const std::vector<float>& weight, const std::vector<float>& before,
                            float keep, float scale) {
      const Descent expected = plain_descent(s, d, x, weight, before, keep, scale);
      for (const VectorFamily family : families()) {
        SCOPED_TRACE(name_of(family));
        const DenseKernels& kernels = dense_kernels(family);
        auto to = before;
        std::vector<float> dx(x.size(), kNan);  // what stands there is not read
        const float* from = &weight == &before ? to.data() : weight.data();
        for (const WeightTile& tile : tiles(s)) {
          kernels.take_back(g, from, tile, dx.data());
          float* c = to.data() + tile.o * s.in + tile.i;
          kernels.multiply_tile(g, tile, scale, keep, c, s.in);
        }
        EXPECT_EQ(dx, expected.dx);
        EXPECT_EQ(to, expected.to);
      }
    };
    expect(w, w, 0.5F, -0.25F);  // a step on the weight itself
    expect(w, w, 0, 1);          // its gradient in its place
    expect(other, std::vector<float>(w.size(), kNan), 0, 1);
  }
}

std::vector<float> fractions(int64_t n, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

// Lane l adds the products l, l + 16, ... of 1024 inputs at most; then halves of the lanes are
// added.
float sum_by_lanes(const float* x, const float* w, int64_t in) {
  float lanes[16] = {};
  for (int64_t i = 0; i < in; ++i) lanes[i % 16] = std::fmaf(x[i], w[i], lanes[i % 16]);
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

TEST(DenseKernels, AddInOneOrder) {
  for (const auto& [rows, out, in] : all_sizes()) {
    if (rows * out * in > 1000000) continue;
    SCOPED_TRACE(::testing::PrintToString(std::vector{rows, out, in}));
    const auto x = fractions(rows * in, 1), w = fractions(out * in, 2),
               d = fractions(rows * out, 3);
    auto y = d, to = w;
    for (int64_t at = 0; at < rows * out; ++at) {
      const float* from = x.data() + at / out * in;
      for (int64_t i = 0; i < in; i += 1024) {
        y[std::size_t(at)] +=
            sum_by_lanes(from + i, w.data() + at % out * in + i, std::min<int64_t>(1024, in - i));
      }
    }
    for (int64_t at = 0; at < out * in; ++at) {
      float sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        sum = std::fmaf(d[std::size_t(r * out + at / in)], x[std::size_t(r * in + at % in)], sum);
      }
      to[std::size_t(at)] = std::fmaf(-0.03F, sum, 0.99F * w[std::size_t(at)]);
    }
    const WeightGradient g{
        .offset = 0, .out = out, .in = in, .samples = rows, .deltas = d.data(), .inputs = x.data()};
    for (const VectorFamily family : families()) {
      const DenseKernels& kernels = dense_kernels(family);
      auto found_y = d, found_to = w;
      kernels.add_product(rows, out, in, x.data(), w.data(), found_y.data());
      for (const WeightTile& tile : tiles({rows, out, in})) {
        kernels.multiply_tile(g, tile, -0.03F, 0.99F, found_to.data() + tile.o * in + tile.i, in);
      }
      EXPECT_EQ(found_y, y) << name_of(family);
      EXPECT_EQ(found_to, to) << name_of(family);
    }
  }
}

TEST(DenseKernels, HaveTheSameBitsInAllFamilies) {
  for (const auto& [rows, out, in] : all_sizes()) {
    SCOPED_TRACE(::testing::PrintToString(std::vector{rows, out, in}));
    const auto x = fractions(rows * in, 1), w = fractions(out * in, 2),
               d = fractions(rows * out, 3);
    const WeightGradient g{
        .offset = 0, .out = out, .in = in, .samples = rows, .deltas = d.data(), .inputs = x.data()};
    std::vector<std::vector<float>> first;
    for (const VectorFamily family : families()) {
      const DenseKernels& kernels = dense_kernels(family);
      auto y = d, to = w;
      std::vector<float> dx(x.size());
      kernels.add_product(rows, out, in, x.data(), w.data(), y.data());
      for (const WeightTile& tile : tiles({rows, out, in})) {
        kernels.take_back(g, w.data(), tile, dx.data());
        kernels.multiply_tile(g, tile, -0.03F, 0.99F, to.data() + tile.o * in + tile.i, in);
      }
      const std::vector found{y, dx, to};
      if (first.empty()) first = found;
      EXPECT_EQ(found, first) << name_of(family);
    }
  }
}

TEST(RepeatRow, WritesEveryRowAndNothingBehind) {
  const std::vector<float> row = {1, 2, 3};
  for (int64_t rows = 0; rows < 20; ++rows) {
    for (const float* values : {row.data(), static_cast<const float*>(nullptr)}) {
      std::vector<float> to(static_cast<std::size_t>(3 * rows + 1), -1);
      repeat_row(values, rows, 3, to.data());
      for (int64_t i = 0; i < 3 * rows; ++i) {
        EXPECT_EQ(to[std::size_t(i)], values != nullptr ? row[std::size_t(i % 3)] : 0) << rows;
      }
      EXPECT_EQ(to.back(), -1) << rows;
    }
  }
}

TEST(OwnKernels, AreForFewRowsAndLeaveLargeWeightsToThreads) {
  if (fastest_family() == VectorFamily::kPlain) GTEST_SKIP() << "this processor has no AVX2";
  const int before = openblas_get_num_threads();
  openblas_set_num_threads(1);
  EXPECT_EQ(own_kernels(64, 2048, 3136), &dense_kernels());
  EXPECT_EQ(own_kernels(65, 10, 784), nullptr);
  openblas_set_num_threads(2);
  EXPECT_EQ(own_kernels(20, 2048, 3136), nullptr);
  EXPECT_EQ(own_kernels(20, 10, 784), &dense_kernels());
  openblas_set_num_threads(before);
}

}  // namespace
}  // namespace hanse
