// Robust rules that look at one column (coordinate) of all rows at a time: median, trimmed mean,
// mean around the median, and Bulyan's second stage.
//
// Values are int64 on the lattice of the exact sum, z = llrint(2^44 u). So there is no NaN, sorting
// is exact, and a mean is an exact sum of integers, divided once. A column's result depends on its
// own values alone, therefore columns may be cut among ranks anyhow.
//
// The lattice ends at lattice_limit(n). Values beyond it are cut, which changes no order; a column
// to whose result such a value adds is made from the values as they are, in float64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

enum class ColumnKind { kMedian, kTrimmedMean, kNearMedian, kOwn };

// With n values in ascending order:
//   median: the middle one; for an even n the mean of the middle two (NumPy), or the lower of them;
//   trimmed mean (Yin et al. 2018): the mean without the `count` least and the `count` largest;
//   near median (meamed, Xie et al. 2018; Bulyan, El Mhamdi et al. 2018): the mean of the `count`
//   values nearest to the median; of two equally near ones the row of the smaller place counts;
//   own: what a ColumnFunction makes of them (own_columns.hpp), which are no integers there.
struct ColumnRule {
  ColumnKind kind = ColumnKind::kMedian;
  int64_t count = 0;
  bool lower_median = false;
};

// A step by columns: y_a = sum_i map_ai u_i of the participants' rows, then the rule on the y.
struct ColumnMix {
  ColumnRule rule;
  std::vector<double> map;  // [n, K]
  int64_t n = 0;
  std::vector<double> weights = {};  // [n] of the y, for a rule of one's own; else empty
};

// The largest |z| of n values whose sum, and whose distances to a median, fit into int64.
int64_t lattice_limit(int64_t n);

// llrint(2^44 u); beyond the limit, the limit with the sign of u: such a value still is the largest
// or the least of its column. REQUIRES: not NaN.
int64_t to_lattice(double u, int64_t limit);

// Writes the lattice values [n, P] of mix.map times `rows` (K rows of P values). Rows that count 0
// everywhere may hold anything. Each entry is summed in float64 in the order of the rows. Cost: P
// times the map's entries that are not 0.
void map_columns(const ColumnMix& mix, std::span<const float* const> rows, int64_t columns,
                 std::span<int64_t> out);
void map_columns(const ColumnMix& mix, std::span<const double* const> rows, int64_t columns,
                 std::span<int64_t> out);

// Who is averaged: `shares` [P] gets the mean of `weights` [n] over the rows whose values are
// behind each result.
struct ColumnWatch {
  std::span<const double> weights = {};
  std::span<double> shares = {};
};

// Writes out [P] from values [n, P]. Columns are sorted side by side: a sorting network whose
// exchanges are vector minima and maxima, Batcher's, without the exchanges that the rule does not
// need. Returns the columns whose result is not known, ascending: a value at the end of the lattice
// adds to it. REQUIRES: n >= 1; 2 count < n trimmed; 1 <= count <= n near; all |z| <=
// lattice_limit(n). Cost: about n (log2 n)^2 / 4 exchanges a column, eight columns at once with
// AVX-512.
std::vector<std::size_t> mix_columns(const ColumnRule& rule, std::span<const int64_t> values,
                                     std::size_t n, std::span<double> out,
                                     const ColumnWatch& watch = {});

// An entry of a step to which a value beyond the lattice adds.
struct LargeEntry {
  std::size_t column = 0;
  std::size_t row = 0;  // of the K: adds most to the largest of the values that are averaged
};

// Writes the step out [P] of `rows` (K rows of P values) and returns its large entries: of finite
// values nothing is cut. `lattice` [n, P] is room to work in. Cost: map_columns() and
// mix_columns(); O(K n + n log n) for each large entry.
std::vector<LargeEntry> step_columns(const ColumnMix& mix, std::span<const float* const> rows,
                                     std::span<int64_t> lattice, std::span<double> out,
                                     const ColumnWatch& watch = {});
std::vector<LargeEntry> step_columns(const ColumnMix& mix, std::span<const double* const> rows,
                                     std::span<int64_t> lattice, std::span<double> out,
                                     const ColumnWatch& watch = {});

}  // namespace hanse
