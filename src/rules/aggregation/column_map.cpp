#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "hanse/base/processor.hpp"
#include "hanse/rules/aggregation/column_rules.hpp"

namespace hanse {

namespace {

// NaN aside, clamping needs no branches.
[[gnu::always_inline]] inline int64_t lattice_value(double u, double limit) {
  const double z = std::nearbyint(u * 0x1p44);
  const double low = z < -limit ? -limit : z;
  return static_cast<int64_t>(low > limit ? limit : low);
}

// A row's values as float64, in as many columns as are mapped side by side.
constexpr std::size_t kSide = 32, kLane = 8, kVectors = kSide / kLane;
using Doubles = double __attribute__((vector_size(sizeof(double) * kLane)));
using Side = std::array<double, kSide>;
constexpr std::size_t kAhead = 8 * kSide;  // columns that are fetched before they are mapped

// Rows that count 0 in a mapped row are left out: they may hold anything.
struct Term {
  std::size_t row;
  double weight;
  bool operator==(const Term&) const = default;
};

std::vector<std::vector<Term>> terms_of(const ColumnMix& mix, std::size_t rows) {
  std::vector<std::vector<Term>> terms(static_cast<std::size_t>(mix.n));
  for (std::size_t a = 0; a < terms.size(); ++a) {
    for (std::size_t i = 0; i < rows; ++i) {
      const double weight = mix.map[a * rows + i];
      if (weight != 0) terms[a].push_back({i, weight});
    }
  }
  return terms;
}

[[gnu::always_inline]] inline void add_terms(std::span<const Term> terms,
                                             const std::vector<Side>& rows, Side& out) {
  std::array<Doubles, kVectors> sum{};
  for (const Term& term : terms) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Doubles values;
      std::memcpy(&values, rows[term.row].data() + v * kLane, sizeof(values));
      sum[v] += term.weight * values;
    }
  }
  std::memcpy(out.data(), sum.data(), sizeof(out));
}

// Each value of a strip of all rows is read and widened once; the sums stay in registers.
template <class Real>
[[gnu::always_inline]] inline void map_all(const ColumnMix& mix, std::span<const Real* const> rows,
                                           std::size_t size, int64_t* out) {
  const auto limit = static_cast<double>(lattice_limit(mix.n));
  const auto terms = terms_of(mix, rows.size());
  std::vector<std::size_t> first;  // the first mapped row of the same terms: neighbours' often are
  for (const auto& own : terms) {
    first.push_back(static_cast<std::size_t>(std::ranges::find(terms, own) - terms.begin()));
  }
  std::vector<Side> wide(rows.size());
  for (std::size_t begin = 0; begin < size; begin += kSide) {
    const std::size_t width = std::min(kSide, size - begin);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Real* const from = rows[i] + begin;
      // More rows than processors follow on their own.
      __builtin_prefetch(from + kAhead);
      __builtin_prefetch(from + kAhead + kSide / 2);
      for (std::size_t w = 0; w < width; ++w) wide[i][w] = static_cast<double>(from[w]);
    }
    for (std::size_t a = 0; a < terms.size(); ++a) {
      int64_t* const values = out + a * size + begin;
      if (first[a] < a) {
        std::copy_n(out + first[a] * size + begin, width, values);
        continue;
      }
      Side sum;
      add_terms(terms[a], wide, sum);
      for (std::size_t w = 0; w < width; ++w) values[w] = lattice_value(sum[w], limit);
    }
  }
}

#if defined(__x86_64__)
template <class Real>
HANSE_AVX2 void map_avx2(const ColumnMix& mix, std::span<const Real* const> rows, std::size_t size,
                         int64_t* out) {
  map_all(mix, rows, size, out);
}

template <class Real>
HANSE_AVX512 void map_avx512(const ColumnMix& mix, std::span<const Real* const> rows,
                             std::size_t size, int64_t* out) {
  map_all(mix, rows, size, out);
}
#endif

// The results of all families of processors are the same.
template <class Real>
void map_values(const ColumnMix& mix, std::span<const Real* const> rows, int64_t columns,
                std::span<int64_t> out) {
  const auto size = static_cast<std::size_t>(columns);
#if defined(__x86_64__)
  if (has_avx512()) return map_avx512(mix, rows, size, out.data());
  if (has_avx2()) return map_avx2(mix, rows, size, out.data());
#endif
  map_all(mix, rows, size, out.data());
}

}  // namespace

// A float64 has it exactly.
int64_t lattice_limit(int64_t n) {
  return (int64_t{1} << 62) / std::max<int64_t>(n, 4) & ~int64_t{1023};
}

int64_t to_lattice(double u, int64_t limit) { return lattice_value(u, static_cast<double>(limit)); }

void map_columns(const ColumnMix& mix, std::span<const float* const> rows, int64_t columns,
                 std::span<int64_t> out) {
  map_values(mix, rows, columns, out);
}

void map_columns(const ColumnMix& mix, std::span<const double* const> rows, int64_t columns,
                 std::span<int64_t> out) {
  map_values(mix, rows, columns, out);
}

}  // namespace hanse
