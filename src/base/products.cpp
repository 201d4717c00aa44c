#include "hanse/base/products.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "hanse/base/processor.hpp"

namespace hanse {

namespace {

constexpr int64_t kBlock = 8192;   // values of a row at once
constexpr std::size_t kLanes = 8;  // sums of a pair under way: value i goes to sum i % kLanes
constexpr std::size_t kTile = 4;   // rows against as many at once: each is loaded once for all

using Rows = std::array<const float*, kTile>;
using Lanes = std::array<double, kLanes>;
using Tile = std::array<std::array<double, kTile>, kTile>;

// Writes left[i].right[j] to tile[i][j]. Products of two floats are exact in float64, so a fused
// multiplication and addition rounds as the two do: all kernels give the same bits.
using TileKernel = void (*)(const Rows& left, const Rows& right, int64_t n, Tile& tile);

// The sum of the lanes in their order, and of the values from `begin` on, fewer than kLanes.
double finish(Lanes lanes, const float* left, const float* right, int64_t begin, int64_t n) {
  for (int64_t i = begin; i < n; ++i) {
    lanes[static_cast<std::size_t>(i - begin)] +=
        static_cast<double>(left[i]) * static_cast<double>(right[i]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// Written in vectors, because compilers do not vectorize an array of sums.
double product_plain(const float* left, const float* right, int64_t n) {
  using Floats = float __attribute__((vector_size(sizeof(float) * kLanes)));
  using Doubles = double __attribute__((vector_size(sizeof(double) * kLanes)));
  constexpr auto kWidth = static_cast<int64_t>(kLanes);
  Doubles sums{};
  int64_t at = 0;
  for (; at + kWidth <= n; at += kWidth) {
    Floats x, y;
    std::memcpy(&x, left + at, sizeof(x));
    std::memcpy(&y, right + at, sizeof(y));
    sums += __builtin_convertvector(x, Doubles) * __builtin_convertvector(y, Doubles);
  }
  Lanes lanes;
  std::memcpy(lanes.data(), &sums, sizeof(sums));
  return finish(lanes, left, right, at, n);
}

template <std::size_t kLeft, std::size_t kRight>
void tile_plain(const Rows& left, const Rows& right, int64_t n, Tile& tile) {
  for (std::size_t i = 0; i < kLeft; ++i) {
    for (std::size_t j = 0; j < kRight; ++j) tile[i][j] = product_plain(left[i], right[j], n);
  }
}

#if defined(__x86_64__)

template <std::size_t kLeft, std::size_t kRight>
HANSE_AVX512 void tile_avx512(const Rows& left, const Rows& right, int64_t n, Tile& tile) {
  constexpr auto kWidth = static_cast<int64_t>(kLanes);
  __m512d sums[kLeft][kRight];
  for (auto& row : sums) {
    for (__m512d& sum : row) sum = _mm512_setzero_pd();
  }
  int64_t at = 0;
  for (; at + kWidth <= n; at += kWidth) {
    __m512d y[kRight];
    for (std::size_t j = 0; j < kRight; ++j) {
      y[j] = _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(right[j] + at));
    }
    for (std::size_t i = 0; i < kLeft; ++i) {
      const __m512d x = _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(left[i] + at));
      for (std::size_t j = 0; j < kRight; ++j) sums[i][j] = _mm512_fmadd_pd(x, y[j], sums[i][j]);
    }
  }
  for (std::size_t i = 0; i < kLeft; ++i) {
    for (std::size_t j = 0; j < kRight; ++j) {
      Lanes lanes;
      _mm512_storeu_pd(lanes.data(), sums[i][j]);
      tile[i][j] = finish(lanes, left[i], right[j], at, n);
    }
  }
}

#define HANSE_KERNEL(left, right) \
  (has_avx512() ? tile_avx512<left, right> : tile_plain<left, right>)
#else
#define HANSE_KERNEL(left, right) tile_plain<left, right>
#endif

// The kernel for so many rows on either side, 1 to kTile.
TileKernel kernel_of(std::size_t left, std::size_t right) {
  static const TileKernel kernels[kTile][kTile] = {
      {HANSE_KERNEL(1, 1), HANSE_KERNEL(1, 2), HANSE_KERNEL(1, 3), HANSE_KERNEL(1, 4)},
      {HANSE_KERNEL(2, 1), HANSE_KERNEL(2, 2), HANSE_KERNEL(2, 3), HANSE_KERNEL(2, 4)},
      {HANSE_KERNEL(3, 1), HANSE_KERNEL(3, 2), HANSE_KERNEL(3, 3), HANSE_KERNEL(3, 4)},
      {HANSE_KERNEL(4, 1), HANSE_KERNEL(4, 2), HANSE_KERNEL(4, 3), HANSE_KERNEL(4, 4)}};
  return kernels[left - 1][right - 1];
}

Rows tile_of(std::span<const float* const> rows, int64_t begin) {
  Rows result{};
  for (std::size_t i = 0; i < rows.size(); ++i) result[i] = rows[i] + begin;
  return result;
}

// Adds up to kTile rows' products with all of `right`, over `length` values from `begin`.
void add_band(std::span<const float* const> band, std::span<const float* const> right,
              int64_t begin, int64_t length, std::size_t stride, double* table) {
  const Rows left = tile_of(band, begin);
  for (std::size_t j = 0; j < right.size(); j += kTile) {
    const std::size_t width = std::min(kTile, right.size() - j);
    Tile tile;
    kernel_of(band.size(), width)(left, tile_of(right.subspan(j, width), begin), length, tile);
    for (std::size_t row = 0; row < band.size(); ++row) {
      for (std::size_t column = 0; column < width; ++column) {
        table[row * stride + j + column] += tile[row][column];
      }
    }
  }
}

}  // namespace

double inner_product(std::span<const float> a, std::span<const float> b) {
  const auto n = static_cast<int64_t>(a.size());
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    Tile tile;
    kernel_of(1, 1)({a.data() + begin}, {b.data() + begin}, std::min(kBlock, n - begin), tile);
    sum += tile[0][0];
  }
  return sum;
}

void add_inner_products(std::span<const float* const> left, std::span<const float* const> right,
                        int64_t n, std::span<double> table) {
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t length = std::min(kBlock, n - begin);
    for (std::size_t i = 0; i < left.size(); i += kTile) {
      const auto band = left.subspan(i, std::min(kTile, left.size() - i));
      add_band(band, right, begin, length, right.size(), table.data() + i * right.size());
    }
  }
}

void add_gram(std::span<const float* const> rows, int64_t n, std::span<double> gram) {
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t length = std::min(kBlock, n - begin);
    for (std::size_t i = 0; i < rows.size(); i += kTile) {
      const std::size_t end = std::min(i + kTile, rows.size());
      add_band(rows.subspan(i, end - i), rows.first(end), begin, length, rows.size(),
               gram.data() + i * rows.size());
    }
  }
}

void mirror(std::span<double> gram, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < i; ++j) gram[j * size + i] = gram[i * size + j];
  }
}

}  // namespace hanse
