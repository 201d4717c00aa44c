// Group norm against plain loops in float64, its gradient against differences of these.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "model/layers/group_norm.hpp"

namespace hanse {
namespace {

using Values = std::vector<double>;

struct NormCase {
  int64_t channels, groups, pixels, rows;
  double mean = 0;  // of what is normalized
};

std::ostream& operator<<(std::ostream& out, const NormCase& c) {
  return out << c.channels << " channels in " << c.groups << " groups, " << c.pixels
             << " pixels around " << c.mean << ", B=" << c.rows;
}

std::vector<NormCase> norm_cases() {
  return {{1, 1, 2, 1},    {4, 1, 1, 2},   {17, 1, 9, 5},        {16, 16, 33, 2},     {6, 3, 25, 3},
          {64, 2, 100, 2}, {70, 5, 31, 2}, {66, 33, 64, 1, 100}, {32, 4, 1089, 1, -3}};
}

// What a norm over [rows, pixels, channels] reads and writes.
struct NormNumbers {
  Values row, x, other, d;  // row: gamma, then beta

  explicit NormNumbers(const NormCase& c) {
    const int64_t size = c.rows * c.pixels * c.channels;
    const auto draw = [](int64_t n, uint64_t seed, double mean) {
      RandomStream random(seed, Purpose::kData);
      Values values;
      for (int64_t i = 0; i < n; ++i) values.push_back(double{float(random.normal() + mean)});
      return values;
    };
    row = draw(2 * c.channels, 1, 0);
    x = draw(size, 2, c.mean);
    other = draw(size, 3, 0);
    d = draw(size, 4, 0);
  }
};

// norm(x) + other before the ReLU.
Values plain_norm(const NormCase& c, const NormNumbers& n) {
  Values y(n.x.size());
  const int64_t group = c.channels / c.groups;
  for (int64_t image = 0; image < c.rows; ++image)
    for (int64_t g = 0; g < c.groups; ++g) {
      const auto for_each = [&](auto f) {
        for (int64_t p = 0; p < c.pixels; ++p)
          for (int64_t v = g * group; v < (g + 1) * group; ++v) {
            f(std::size_t((image * c.pixels + p) * c.channels + v), std::size_t(v));
          }
      };
      const double values = double(group * c.pixels);
      double mean = 0, variance = 0;
      for_each([&](std::size_t i, std::size_t) { mean += n.x[i] / values; });
      for_each([&](std::size_t i, std::size_t) {
        variance += (n.x[i] - mean) * (n.x[i] - mean) / values;
      });
      for_each([&](std::size_t i, std::size_t v) {
        const double z = (n.x[i] - mean) / std::sqrt(variance + 1e-5);
        y[i] = z * n.row[v] + n.row[std::size_t(c.channels) + v] + n.other[i];
      });
    }
  return y;
}

std::vector<float> in_lines(const Values& from, int64_t channels) {
  const int64_t pixels = std::ssize(from) / channels, line = whole_lines(channels);
  std::vector<float> to(std::size_t(pixels * line));
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t v = 0; v < channels; ++v) {
      to[std::size_t(p * line + v)] = float(from[std::size_t(p * channels + v)]);
    }
  return to;
}
std::vector<float> of_lines(const std::vector<float>& from, int64_t channels) {
  std::vector<float> to;
  for (auto at = from.begin(); at < from.end(); at += whole_lines(channels)) {
    to.insert(to.end(), at, at + channels);
  }
  return to;
}

struct NormFound {
  std::vector<float> y, dx, gradient;
};

NormFound run(const NormCase& c, const NormNumbers& n, VectorFamily family) {
  const std::vector<float> row(n.row.begin(), n.row.end());
  const auto x = in_lines(n.x, c.channels), other = in_lines(n.other, c.channels);
  auto d = in_lines(n.d, c.channels);
  std::vector<float> y(x.size(), NAN), dx(x.size(), NAN), gradient(row.size(), NAN);
  GroupNorm norm(0, c.channels, c.channels, c.groups, c.pixels, family);
  norm.hold(c.rows);
  for (int64_t image = 0; image < c.rows; ++image) {
    const int64_t at = image * c.pixels * whole_lines(c.channels);
    norm.measure(row.data(), x.data() + at, image);
    norm.normalize(x.data() + at, image, other.data() + at, y.data() + at);
    norm.backward(row.data(), x.data() + at, image, y.data() + at, d.data() + at, dx.data() + at);
  }
  norm.hand_over({{.row = gradient.data()}}, c.rows);
  return {of_lines(y, c.channels), of_lines(dx, c.channels), gradient};
}

TEST(GroupNorm, IsThatOfPlainLoopsInEveryFamily) {
  for (const NormCase& c : norm_cases()) {
    const NormNumbers n(c);
    const Values expected = plain_norm(c, n);
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(::testing::PrintToString(c) + " " + name_of(family));
      const NormFound found = run(c, n, family);
      double error = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        error = std::max(error, std::abs(double{found.y[i]} - std::max(expected[i], 0.0)));
      }
      EXPECT_LE(error, 2e-6 * (1 + std::abs(c.mean)));
    }
  }
}

// The slope of sum(d relu(norm(x) + other)), whose ReLU is as it is at x.
TEST(GroupNorm, GradientIsTheSlope) {
  constexpr double kStep = 1e-6;
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const NormNumbers n(c);
    const Values at = plain_norm(c, n);
    const auto slope = [&](auto move) {
      double sum = 0;
      for (const double step : {kStep, -kStep}) {
        NormNumbers moved = n;
        move(moved, step);
        const Values y = plain_norm(c, moved);
        for (std::size_t i = 0; i < y.size(); ++i) {
          sum += at[i] > 0 ? n.d[i] * (y[i] - at[i]) / (2 * step) : 0;
        }
      }
      return sum;
    };
    const NormFound found = run(c, n, fastest_family());
    const auto check = [&](const std::vector<float>& actual, Values NormNumbers::*of) {
      double largest = 1e-3, error = 0;
      for (std::size_t i = 0; i < actual.size(); i += 1 + actual.size() / 150) {
        const double expected =
            slope([&](NormNumbers& moved, double step) { (moved.*of)[i] += step; });
        largest = std::max(largest, std::abs(expected));
        error = std::max(error, std::abs(expected - double{actual[i]}));
      }
      EXPECT_LE(error, 1e-5 * largest * (1 + std::abs(c.mean) / 10));
    };
    check(found.dx, &NormNumbers::x);
    check(found.gradient, &NormNumbers::row);
  }
}

TEST(GroupNorm, HasTheSameBitsInEveryFamily) {
  for (const NormCase& c : norm_cases()) {
    const NormNumbers n(c);
    const NormFound first = run(c, n, families().front());
    for (const VectorFamily family : families()) {
      SCOPED_TRACE(::testing::PrintToString(c) + " " + name_of(family));
      const NormFound found = run(c, n, family);
      EXPECT_EQ(found.y, first.y);
      EXPECT_EQ(found.dx, first.dx);
      EXPECT_EQ(found.gradient, first.gradient);
    }
  }
}

// relu(norm(x) + norm of another).
TEST(GroupNorm, AddsAnotherNorm) {
  const NormCase c{18, 2, 7, 2};
  const NormNumbers n(c);
  NormNumbers second = n;
  std::swap(second.x, second.other);
  std::ranges::reverse(second.row);
  NormNumbers alone = second;
  std::ranges::fill(alone.other, 0);
  NormNumbers both = n;
  both.other = plain_norm(c, alone);
  const Values expected = plain_norm(c, both);
  const std::vector<float> row(n.row.begin(), n.row.end());
  const std::vector<float> other_row(second.row.begin(), second.row.end());
  const auto x = in_lines(n.x, c.channels), other = in_lines(second.x, c.channels);
  std::vector<float> y(x.size(), NAN);
  for (const VectorFamily family : families()) {
    SCOPED_TRACE(name_of(family));
    GroupNorm norm(0, c.channels, c.channels, c.groups, c.pixels, family), other_norm = norm;
    norm.hold(c.rows);
    other_norm.hold(c.rows);
    for (int64_t image = 0; image < c.rows; ++image) {
      const int64_t at = image * c.pixels * whole_lines(c.channels);
      norm.measure(row.data(), x.data() + at, image);
      other_norm.measure(other_row.data(), other.data() + at, image);
      norm.normalize(x.data() + at, image, other.data() + at, other_norm, y.data() + at);
    }
    const auto found = of_lines(y, c.channels);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(double{found[i]}, std::max(expected[i], 0.0), 5e-6);
    }
  }
}

// To its whole group, and to no other image.
TEST(GroupNorm, NanPassesThrough) {
  const NormCase c{6, 2, 5, 2};
  NormNumbers n(c);
  n.x[0] = std::numeric_limits<double>::quiet_NaN();
  for (const VectorFamily family : families()) {
    SCOPED_TRACE(name_of(family));
    const NormFound found = run(c, n, family);
    for (std::size_t i = 0; i < found.y.size(); ++i) {
      const bool reached = i < 30 && i % 6 < 3;
      EXPECT_EQ(std::isnan(found.y[i]), reached) << i;
      EXPECT_EQ(std::isnan(found.dx[i]), reached) << i;
    }
    EXPECT_TRUE(std::isnan(found.gradient[0]));
  }
}

}  // namespace
}  // namespace hanse
