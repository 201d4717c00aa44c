// Convolutions that keep the sides against plain loops in float64, for every family of kernels.
// Images, weights and deltas are small whole numbers: all sums are exact, Winograd's quarters, too.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/layers/same_convolution.hpp"

namespace hanse {
namespace {

using Size = SameConvolution::Size;
using Values = std::vector<double>;

struct SameCase {
  Size size;
  int64_t rows;
};

std::ostream& operator<<(std::ostream& out, const SameCase& c) {
  return out << c.size.height << "x" << c.size.width << " of " << c.size.inputs << " to "
             << c.size.outputs << " by " << c.size.kernel << " stride " << c.size.stride
             << (c.size.of_samples ? " of samples" : "") << " B=" << c.rows;
}

// Channels are every rest of a vector and of a panel, sides every rest of a tile.
std::vector<SameCase> same_cases() {
  std::vector<SameCase> cases;
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 1, 1, 1},  {3, 17, 2, 1},  {16, 16, 3, 3},  {5, 2, 5, 9},  {17, 65, 4, 5},
      {64, 7, 9, 4}, {66, 33, 3, 8}, {4, 15, 33, 12}, {1, 130, 2, 6}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (const int64_t kernel : {1, 3}) {
      for (const int64_t stride : {1, 2}) {
        const auto& s = shapes[i];
        cases.push_back(
            {{s[0], s[1], s[2], s[3], kernel, stride}, static_cast<int64_t>(i % 5 + 1)});
      }
    }
  }
  cases.push_back({{3, 5, 7, 6, 3, 1, /*of_samples=*/true}, 3});
  cases.push_back({{130, 131, 8, 7, 3, 1}, 13});  // weights that fill the cache, more than a chunk
  return cases;
}

int64_t weight_values(const Size& s) { return s.outputs * s.inputs * s.kernel * s.kernel; }

// f(place in y, in the weight, in x) for all products of an image; images are [pixels, channels].
template <class F>
void for_each_product(const Size& s, F f) {
  for (int64_t r = 0; r < s.out_height(); ++r)
    for (int64_t c = 0; c < s.out_width(); ++c)
      for (int64_t i = 0; i < s.kernel; ++i)
        for (int64_t j = 0; j < s.kernel; ++j) {
          const int64_t y = r * s.stride + i - s.kernel / 2, x = c * s.stride + j - s.kernel / 2;
          if (y < 0 || x < 0 || y >= s.height || x >= s.width) continue;
          for (int64_t o = 0; o < s.outputs; ++o)
            for (int64_t v = 0; v < s.inputs; ++v) {
              f((r * s.out_width() + c) * s.outputs + o,
                ((o * s.inputs + v) * s.kernel + i) * s.kernel + j,
                (y * s.width + x) * s.inputs + v);
            }
        }
}

// [pixels, channels] in whole lines, zeros behind the channels, and back.
std::vector<float> in_lines(const std::vector<float>& from, int64_t channels, int64_t line) {
  const int64_t pixels = std::ssize(from) / channels;
  std::vector<float> to(std::size_t(pixels * line + kReadAhead));
  for (int64_t p = 0; p < pixels; ++p) {
    std::copy_n(from.begin() + p * channels, channels, to.begin() + p * line);
  }
  return to;
}
std::vector<float> of_lines(const std::vector<float>& from, int64_t channels, int64_t line) {
  std::vector<float> to;
  for (int64_t p = 0; p < (std::ssize(from) - kReadAhead) / line; ++p) {
    to.insert(to.end(), from.begin() + p * line, from.begin() + p * line + channels);
  }
  return to;
}

struct Numbers {
  std::vector<float> row, x, dy, dx;  // dx is what the delta is added to

  template <class Draw>
  Numbers(const SameCase& c, Draw draw)
      : row(draw(weight_values(c.size) + 3, 1)),
        x(draw(c.rows * c.size.height * c.size.width * c.size.inputs, 2)),
        dy(draw(c.rows * c.size.out_pixels() * c.size.outputs, 3)),
        dx(draw(std::ssize(x), 4)) {}
};

// -1, 0 or 1.
std::vector<float> whole_numbers(int64_t n, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(random.below(3)) - 1);
  return values;
}

std::vector<float> normal_numbers(int64_t n, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

struct Found {
  std::vector<float> y, dx, gradient;
};

// The images in two parts.
Found run(const SameCase& c, const Numbers& n, VectorFamily family, ConvolutionScratch& scratch,
          const Bfloat16Kernels* in_bfloat16 = nullptr) {
  const Size& s = c.size;
  const SameConvolution convolution(2, s, family, in_bfloat16);
  scratch.shares.resize(1);
  const auto x = in_lines(n.x, s.inputs, s.in_line()), dy = in_lines(n.dy, s.outputs, s.out_line());
  auto y = std::vector<float>(dy.size(), NAN), dx = in_lines(n.dx, s.inputs, s.in_line());
  Found found{{}, {}, std::vector<float>(n.row.size(), 7)};
  auto& share = scratch.shares[0];
  const int64_t middle = c.rows / 2;
  convolution.load(n.row.data(), scratch);
  convolution.forward(x.data(), 0, middle, y.data(), scratch, share);
  convolution.forward(x.data(), middle, c.rows, y.data(), scratch, share);
  convolution.load_transposed(n.row.data(), scratch);
  convolution.clear_gradient(share);
  convolution.backward(x.data(), dy.data(), 0, middle, dx.data(), true, scratch, share);
  convolution.backward(x.data(), dy.data(), middle, c.rows, dx.data(), true, scratch, share);
  convolution.hand_over({{.row = found.gradient.data()}}, 1, scratch);
  found.y = of_lines(y, s.outputs, s.out_line());
  found.dx = of_lines(dx, s.inputs, s.in_line());
  return found;
}

Values doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST(SameConvolution, IsThatOfPlainLoopsInEveryFamily) {
  ConvolutionScratch scratch;  // what one case leaves the next one finds
  for (const SameCase& c : same_cases()) {
    const Size& s = c.size;
    const Numbers n(c, whole_numbers);
    Values y(n.dy.size()), dx = doubles(n.dx), gradient(n.row.size(), 7);
    std::fill_n(gradient.begin() + 2, weight_values(s), 0.0);
    for (int64_t image = 0; image < c.rows; ++image) {
      const int64_t out = image * s.out_pixels() * s.outputs;
      const int64_t in = image * s.height * s.width * s.inputs;
      for_each_product(s, [&](int64_t to, int64_t w, int64_t from) {
        const double x = n.x[std::size_t(in + from)], weight = n.row[std::size_t(2 + w)];
        const double delta = n.dy[std::size_t(out + to)];
        y[std::size_t(out + to)] += weight * x;
        gradient[std::size_t(2 + w)] += delta * x;
        dx[std::size_t(in + from)] += delta * weight;
      });
    }
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(::testing::PrintToString(c) + " " + name_of(family));
      const Found found = run(c, n, family, scratch);
      EXPECT_EQ(doubles(found.y), y);
      EXPECT_EQ(doubles(found.gradient), gradient);
      EXPECT_EQ(doubles(found.dx), dx);
    }
    for (const ProductFamily family : product_families()) {  // which hold these numbers, too
      SCOPED_TRACE(::testing::PrintToString(c) + " in bfloat16 by " + name_of(family));
      const Found found = run(c, n, fastest_family(), scratch, &bfloat16_kernels(family));
      EXPECT_EQ(doubles(found.y), y);
      EXPECT_EQ(doubles(found.gradient), gradient);
      EXPECT_EQ(doubles(found.dx), dx);
    }
  }
}

// Numbers that round: the order of every sum is the same.
TEST(SameConvolution, HasTheSameBitsInEveryFamily) {
  for (const SameCase& c : same_cases()) {
    const Numbers n(c, normal_numbers);
    ConvolutionScratch scratch;
    const Found first = run(c, n, families().front(), scratch);
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(::testing::PrintToString(c) + " " + name_of(family));
      const Found found = run(c, n, family, scratch);
      EXPECT_EQ(found.y, first.y);
      EXPECT_EQ(found.dx, first.dx);
      EXPECT_EQ(found.gradient, first.gradient);
    }
    const auto narrow = [&](ProductFamily family) {
      return run(c, n, fastest_family(), scratch, &bfloat16_kernels(family));
    };
    const Found first_narrow = narrow(product_families().front());
    for (const ProductFamily family : product_families()) {
      SCOPED_TRACE(::testing::PrintToString(c) + " in bfloat16 by " + name_of(family));
      const Found found = narrow(family);
      EXPECT_EQ(found.y, first_narrow.y);
      EXPECT_EQ(found.dx, first_narrow.dx);
      EXPECT_EQ(found.gradient, first_narrow.gradient);
    }
  }
}

// Each sum has an error of a few roundings, by Winograd's products as well.
TEST(SameConvolution, RoundsLikePlainLoops) {
  const SameCase c{{64, 64, 8, 8, 3, 1}, 1};
  const Numbers n(c, normal_numbers);
  ConvolutionScratch scratch;
  const Found found = run(c, n, fastest_family(), scratch);
  Values y(n.dy.size()), size(n.dy.size());
  for_each_product(c.size, [&](int64_t to, int64_t w, int64_t from) {
    const double product = double{n.x[std::size_t(from)]} * double{n.row[std::size_t(2 + w)]};
    y[std::size_t(to)] += product;
    size[std::size_t(to)] += product * product;
  });
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(double{found.y[i]}, y[i], 2e-6 * std::sqrt(size[i]));
  }
}

// A value that is none reaches all that is made of it, and nothing of other images or calls.
TEST(SameConvolution, NanPassesThrough) {
  for (const int64_t stride : {1, 2}) {
    const SameCase c{{5, 3, 6, 6, 3, stride}, 2};
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(std::string(name_of(family)) + " stride " + std::to_string(stride));
      Numbers n(c, whole_numbers);
      ConvolutionScratch scratch;
      const Found before = run(c, n, family, scratch);
      const float whole = n.x[0], whole_delta = n.dy[0];
      n.x[0] = n.dy[0] = std::numeric_limits<float>::quiet_NaN();
      const Found found = run(c, n, family, scratch);
      EXPECT_TRUE(std::isnan(found.y[0]));
      EXPECT_TRUE(std::isnan(found.dx[0]));
      EXPECT_TRUE(std::isnan(found.gradient[2 + 4]));  // the middle of the first kernel
      const auto half = std::ssize(found.y) / 2;
      EXPECT_TRUE(std::equal(found.y.begin() + half, found.y.end(), before.y.begin() + half));
      n.x[0] = whole;
      n.dy[0] = whole_delta;
      const Found after = run(c, n, family, scratch);
      EXPECT_EQ(after.y, before.y);
      EXPECT_EQ(after.dx, before.dx);
      EXPECT_EQ(after.gradient, before.gradient);
    }
  }
}

}  // namespace
}  // namespace hanse
