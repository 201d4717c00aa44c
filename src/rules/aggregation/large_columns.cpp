// Columns whose values leave the lattice.
#include <cmath>
#include <stdexcept>

#include "hanse/rules/aggregation/column_rules.hpp"
#include "places.hpp"

namespace hanse {

namespace {

using Places = std::vector<std::size_t>;

// The rows whose values are averaged; equal values are taken in the order of the rows.
Places averaged_rows(const ColumnRule& rule, std::span<const double> values) {
  const std::size_t n = values.size();
  const auto count = static_cast<std::size_t>(rule.count);
  Places order = all_places(n);
  std::ranges::stable_sort(order, {}, [&](std::size_t row) { return values[row]; });
  const auto places = [&](std::size_t begin, std::size_t end) {
    return Places(order.begin() + static_cast<std::ptrdiff_t>(begin),
                  order.begin() + static_cast<std::ptrdiff_t>(end));
  };
  const std::size_t low = (n - 1) / 2, high = rule.lower_median ? low : n / 2;
  switch (rule.kind) {
    case ColumnKind::kMedian: return places(low, high + 1);
    case ColumnKind::kTrimmedMean: return places(count, n - count);
    case ColumnKind::kNearMedian: break;
    case ColumnKind::kOwn: throw std::logic_error("a rule of one's own averages by itself");
  }
  // Wide: small values among large ones do not become equally far.
  const auto median = (static_cast<long double>(values[order[low]]) + values[order[high]]) / 2;
  Places nearest = all_places(n);
  std::ranges::stable_sort(nearest, {},
                           [&](std::size_t row) { return std::fabs(values[row] - median); });
  nearest.resize(count);
  return nearest;
}

// The row of those with a weight in `weights` [K] that adds most to their sum.
template <class Real>
std::size_t largest_addend(std::span<const double> weights, std::span<const Real* const> rows,
                           std::size_t column) {
  std::size_t largest = 0;
  double most = -1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (weights[i] == 0) continue;
    const double addend = std::abs(weights[i] * static_cast<double>(rows[i][column]));
    if (addend > most) largest = i;
    most = std::max(most, addend);
  }
  return largest;
}

// [n] the mapped values of a column.
template <class Real>
std::vector<double> mapped_values(const ColumnMix& mix, std::span<const Real* const> rows,
                                  std::size_t column) {
  std::vector<double> values(static_cast<std::size_t>(mix.n));
  for (std::size_t a = 0; a < values.size(); ++a) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double weight = mix.map[a * rows.size() + i];
      if (weight != 0) values[a] += weight * static_cast<double>(rows[i][column]);
    }
  }
  return values;
}

template <class Real>
std::vector<LargeEntry> step_of(const ColumnMix& mix, std::span<const Real* const> rows,
                                std::span<int64_t> lattice, std::span<double> out,
                                const ColumnWatch& watch) {
  map_columns(mix, rows, std::ssize(out), lattice);
  std::vector<LargeEntry> large;
  for (const std::size_t column :
       mix_columns(mix.rule, lattice, static_cast<std::size_t>(mix.n), out, watch)) {
    const auto values = mapped_values(mix, rows, column);
    const Places averaged = averaged_rows(mix.rule, values);
    double sum = 0, share = 0;
    std::size_t largest = averaged.front();
    for (const std::size_t a : averaged) {
      sum += values[a];
      if (!watch.shares.empty()) share += watch.weights[a];
      if (std::abs(values[a]) > std::abs(values[largest])) largest = a;
    }
    const auto count = static_cast<double>(averaged.size());
    out[column] = sum / count;
    if (!watch.shares.empty()) watch.shares[column] = share / count;
    const auto weights = std::span(mix.map).subspan(largest * rows.size(), rows.size());
    large.push_back({column, largest_addend(weights, rows, column)});
  }
  return large;
}

}  // namespace

std::vector<LargeEntry> step_columns(const ColumnMix& mix, std::span<const float* const> rows,
                                     std::span<int64_t> lattice, std::span<double> out,
                                     const ColumnWatch& watch) {
  return step_of(mix, rows, lattice, out, watch);
}

std::vector<LargeEntry> step_columns(const ColumnMix& mix, std::span<const double* const> rows,
                                     std::span<int64_t> lattice, std::span<double> out,
                                     const ColumnWatch& watch) {
  return step_of(mix, rows, lattice, out, watch);
}

}  // namespace hanse
