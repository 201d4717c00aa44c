// The arithmetic of products in bfloat16 as src/README.md defines it, value by value, and factors
// on which kernels could differ.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "model/kernels/bfloat16_kernels.hpp"

namespace hanse::testing {

// x in bfloat16, as a float: by its two neighbours.
inline float to_bfloat16(float x) {
  if (std::isnan(x)) return x;
  if (std::abs(x) < 0x1p-126F) return std::copysign(0.0F, x);
  if (std::isinf(x)) return x;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t below = bits & 0xffff0000U, above = below + 0x10000U;
  const auto value = [](uint32_t of) {  // the one behind the largest counts as 2^128
    const auto near = static_cast<double>(std::bit_cast<float>(of));
    return std::isinf(near) ? std::copysign(0x1p128, near) : near;
  };
  const double down = std::abs(static_cast<double>(x) - value(below));
  const double up = std::abs(value(above) - static_cast<double>(x));
  const bool is_even = (below & 0x10000U) == 0;
  return std::bit_cast<float>(down < up || (down == up && is_even) ? below : above);
}

// A sum, which double holds but for what no rounding to float sees, rounded to nearest even; below
// 2^-126, where it was rounded as if exponents had no end, it is a zero of its sign.
inline float rounded_once(double sum) {
  if (!(std::abs(sum) < 0x1p-120)) return static_cast<float>(sum);
  const double rounded = static_cast<double>(static_cast<float>(sum * 0x1p100)) * 0x1p-100;
  if (std::abs(rounded) < 0x1p-126) return static_cast<float>(std::copysign(0.0, sum));
  return static_cast<float>(rounded);
}

inline double flushed(float x) {
  const auto wide = static_cast<double>(x);
  return std::abs(wide) < 0x1p-126 ? std::copysign(0.0, wide) : wide;
}

// The sum of k products of a[0], a[a_step], ... with b[0], b[b_step], ...
inline float sum_of_products(int64_t k, const float* a, int64_t a_step, const float* b,
                             int64_t b_step) {
  float sum = 0;
  for (int64_t first = 0; first < k; first += 32) {
    float chains[2] = {0, 0};
    for (int64_t i = first; i < first + 32; ++i) {
      const double x = i < k ? flushed(to_bfloat16(a[i * a_step])) : 0;
      const double y = i < k ? flushed(to_bfloat16(b[i * b_step])) : 0;
      float& chain = chains[i % 2];
      chain = rounded_once(x * y + static_cast<double>(chain));
    }
    const float both =
        rounded_once(static_cast<double>(chains[0]) + static_cast<double>(chains[1]));
    sum = rounded_once(static_cast<double>(sum) + static_cast<double>(both));
  }
  return sum;
}

struct ProductSize {
  int64_t m, n, k;
};

// [m, n] of a [m, k] and b [k, n].
inline std::vector<float> product_of(const ProductSize& size, const std::vector<float>& a,
                                     const std::vector<float>& b) {
  std::vector<float> c;
  for (int64_t i = 0; i < size.m; ++i) {
    for (int64_t j = 0; j < size.n; ++j) {
      c.push_back(sum_of_products(size.k, a.data() + i * size.k, 1, b.data() + j, size.n));
    }
  }
  return c;
}

// Values of three kinds: 0, as networks have them; 1, of all exponents, subnormals and zeros too,
// so that sums cancel, underflow and overflow; 2, of few bits, whose sums are often halfway.
inline std::vector<float> factor_values(int64_t size, int kind, uint64_t seed) {
  std::vector<float> values;
  const auto next = [&seed] {  // splitmix64
    uint64_t z = seed += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  };
  for (int64_t i = 0; i < size; ++i) {
    const uint64_t bits = next();
    const float unit = static_cast<float>(bits >> 40) * 0x1p-23F - 1;
    if (kind == 0) {
      values.push_back(unit);
    } else if (kind == 1) {
      const bool tiny = bits % 3 != 0;  // products near 2^-126, where sums are flushed
      const int exponent =
          tiny ? -63 - static_cast<int>(bits / 3 % 6) : static_cast<int>(bits / 3 % 254) - 148;
      values.push_back(bits % 17 == 0 ? 0 : std::ldexp(unit, exponent));
    } else {
      values.push_back(
          std::ldexp(static_cast<float>(bits % 17) - 8, static_cast<int>(bits / 17 % 12) * 2 - 12));
    }
  }
  return values;
}

inline bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

inline std::vector<float> transposed(const std::vector<float>& from, int64_t rows,
                                     int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      to[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return to;
}

// The kernels' product. `turned`: the factors are given as their transposes are.
inline std::vector<float> packed_product(const Bfloat16Kernels& kernels, const ProductSize& size,
                                         const std::vector<float>& a, const std::vector<float>& b,
                                         bool turned) {
  const auto [m, n, k] = size;
  std::vector<float> c(static_cast<std::size_t>(m * n));
  PackedPairs right(static_cast<std::size_t>(right_pairs(k, n)));
  Bfloat16Product product{
      .m = m, .n = n, .k = k, .b = right.data(), .c = c.data(), .c_line = n, .scale = 1};
  if (!turned) {
    AlignedFloats left(static_cast<std::size_t>(left_floats(m, k)));
    kernels.pack_left({a.data(), k}, m, k, left.data());
    kernels.pack_right({b.data(), n}, k, n, right.data());
    product.a = left.data();
    kernels.multiply(product);
    return c;
  }
  ColumnFactor columns;
  const auto turned_a = transposed(a, m, k);
  const float* values = columns.values(kernels, turned_a.data(), m * k);
  kernels.pack_right_transposed({transposed(b, k, n).data(), k}, k, n, right.data());
  const auto multiply = [&](int64_t first, int64_t rows) {
    product.m = rows;
    product.c = c.data() + first * n;
    columns.put(kernels, {values + first, m}, product);
    kernels.multiply(product);
  };
  const int64_t some = m / 3;  // rows that are multiplied apart
  if (some > 0) multiply(0, some);
  multiply(some, m - some);
  return c;
}

// What multiply() of AMX does with its packed factors, in plain code.
inline void multiply_as_tiles_do(const Bfloat16Product& t) {
  const auto* a = reinterpret_cast<const uint16_t*>(t.a);
  const auto* b = reinterpret_cast<const uint16_t*>(t.b);
  const int64_t k = blocks_of(t.k) * kBlockProducts;
  const auto value = [](uint16_t half) {
    return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
  };
  std::vector<float> row(static_cast<std::size_t>(k)), column(row.size());
  for (int64_t r = 0; r < t.m; ++r) {
    for (int64_t o = 0; o < t.n; ++o) {
      for (int64_t i = 0; i < k; ++i) {
        const int64_t block = i / kBlockProducts, place = i % kBlockProducts;
        const int64_t line = block * t.packed_rows() + t.a_first + r;
        const int64_t pairs = (o / kPanelColumns * k + i) / 2 * kPanelColumns + o % kPanelColumns;
        row[static_cast<std::size_t>(i)] = value(a[line * kBlockProducts + place]);
        column[static_cast<std::size_t>(i)] = value(b[2 * pairs + i % 2]);
      }
      float& c = t.c[r * t.c_line + o];
      const float sum = sum_of_products(k, row.data(), 1, column.data(), 1);
      const float old = t.start != nullptr ? t.start[o] : c;
      c = std::fma(t.scale, sum, t.keep == 0 ? 0 : t.keep * old);
    }
  }
}

// The kernels that run here by their names. Where there is no AMX its packing, which AVX-512 with
// BF16 does, is tested with products in plain code.
inline std::vector<std::pair<std::string, Bfloat16Kernels>> tested_kernels() {
  std::vector<std::pair<std::string, Bfloat16Kernels>> all;
  for (const ProductFamily family : product_families()) {
    all.emplace_back(name_of(family), bfloat16_kernels(family));
    if (family != ProductFamily::kAvx512Bfloat16) continue;
    all.emplace_back("AMX's packing", bfloat16_kernels(ProductFamily::kAmx));
    all.back().second.multiply = multiply_as_tiles_do;
  }
  return all;
}

}  // namespace hanse::testing
