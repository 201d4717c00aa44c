#include "hanse/rules/aggregation/column_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hanse/base/processor.hpp"
#include "places.hpp"

namespace hanse {

namespace {

constexpr std::size_t kStrip = 32;  // columns that are sorted side by side
using Strip = std::array<int64_t, kStrip>;
using Exchange = std::pair<std::size_t, std::size_t>;
using Network = std::vector<Exchange>;

// Places [begin, end) of a sorted column.
struct Window {
  std::size_t begin, end;
};

// Batcher's merge exchange (Knuth, The Art of Computer Programming 3, algorithm 5.2.2 M).
Network sorting_network(std::size_t n) {
  Network network;
  std::size_t top = 1;
  while (2 * top < n) top *= 2;
  for (std::size_t p = n > 1 ? top : 0; p > 0; p /= 2) {
    std::size_t q = top, r = 0, d = p;
    while (true) {
      for (std::size_t i = 0; i + d < n; ++i) {
        if ((i & p) == r) network.emplace_back(i, i + d);
      }
      if (q == p) break;
      d = q - p;
      q /= 2;
      r = p;
    }
  }
  return network;
}

// The exchanges on which the sorted places of the window depend; or, where that is all that
// counts, which values are in it.
Network network_for(std::size_t n, const Window& window, bool in_order) {
  enum Place { kOutside, kInside, kExact };
  const Network all = sorting_network(n);
  std::vector<Place> places(n, kOutside);
  for (std::size_t i = window.begin; i < window.end; ++i) places[i] = in_order ? kExact : kInside;
  Network kept;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    Place &low = places[at->first], &high = places[at->second];
    if (low == high && low != kExact) continue;  // they may change places
    low = high = kExact;
    kept.push_back(*at);
  }
  std::ranges::reverse(kept);
  return kept;
}

[[gnu::always_inline]] inline void exchange_all(Strip* strips, const Network& network) {
  for (const auto& [i, j] : network) {
    int64_t* __restrict low = strips[i].data();
    int64_t* __restrict high = strips[j].data();
    for (std::size_t w = 0; w < kStrip; ++w) {
      const int64_t x = low[w];
      const int64_t y = high[w];
      low[w] = x < y ? x : y;
      high[w] = x < y ? y : x;
    }
  }
}

// Sorts the columns side by side, and adds up the places of the window of each.
[[gnu::always_inline]] inline void sort_and_sum(Strip* strips, const Network& network,
                                                const Window& window, Strip& sums) {
  exchange_all(strips, network);
  sums.fill(0);
  for (std::size_t i = window.begin; i < window.end; ++i) {
    for (std::size_t w = 0; w < kStrip; ++w) sums[w] += strips[i][w];
  }
}

// The lattice values of `size` numbers. NaN aside, clamping needs no branches.
[[gnu::always_inline]] inline int64_t lattice_value(double u, double limit) {
  const double z = std::nearbyint(u * 0x1p44);
  const double low = z < -limit ? -limit : z;
  return static_cast<int64_t>(low > limit ? limit : low);
}

template <class Real>
[[gnu::always_inline]] inline void to_lattice_all(const Real* __restrict in, std::size_t size,
                                                  double limit, int64_t* __restrict out) {
  for (std::size_t j = 0; j < size; ++j) out[j] = lattice_value(static_cast<double>(in[j]), limit);
}

template <class Real>
[[gnu::always_inline]] inline void add_row(double weight, const Real* __restrict row,
                                           std::size_t size, double* __restrict sum) {
  for (std::size_t j = 0; j < size; ++j) sum[j] += weight * static_cast<double>(row[j]);
}

template <class Real>
[[gnu::always_inline]] inline void map_all(const ColumnMix& mix, std::span<const Real* const> rows,
                                           std::size_t size, int64_t* out) {
  const auto limit = static_cast<double>(lattice_limit(mix.n));
  std::vector<double> sum(size);
  for (std::size_t a = 0; a < static_cast<std::size_t>(mix.n); ++a) {
    const double* const weights = mix.map.data() + a * rows.size();
    const auto counted =
        std::count_if(weights, weights + rows.size(), [](double w) { return w != 0; });
    const auto first =
        std::find_if(weights, weights + rows.size(), [](double w) { return w != 0; }) - weights;
    int64_t* const values = out + a * size;
    if (counted == 1 && weights[first] == 1) {
      to_lattice_all(rows[static_cast<std::size_t>(first)], size, limit, values);
      continue;
    }
    std::ranges::fill(sum, 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (weights[i] != 0) add_row(weights[i], rows[i], size, sum.data());
    }
    to_lattice_all(sum.data(), size, limit, values);
  }
}

// The loops for a family of processors; the results are the same.
struct Plain {
  static void sort(Strip* strips, const Network& network, const Window& window, Strip& sums) {
    sort_and_sum(strips, network, window, sums);
  }
  template <class Real>
  static void map(const ColumnMix& mix, std::span<const Real* const> rows, std::size_t size,
                  int64_t* out) {
    map_all(mix, rows, size, out);
  }
};

#if defined(__x86_64__)
struct Avx2 {
  HANSE_AVX2 static void sort(Strip* strips, const Network& network, const Window& window,
                              Strip& sums) {
    sort_and_sum(strips, network, window, sums);
  }
  template <class Real>
  HANSE_AVX2 static void map(const ColumnMix& mix, std::span<const Real* const> rows,
                             std::size_t size, int64_t* out) {
    map_all(mix, rows, size, out);
  }
};
struct Avx512 {
  HANSE_AVX512 static void sort(Strip* strips, const Network& network, const Window& window,
                                Strip& sums) {
    sort_and_sum(strips, network, window, sums);
  }
  template <class Real>
  HANSE_AVX512 static void map(const ColumnMix& mix, std::span<const Real* const> rows,
                               std::size_t size, int64_t* out) {
    map_all(mix, rows, size, out);
  }
};
#else
using Avx2 = Plain;
using Avx512 = Plain;
#endif

auto sorter() { return has_avx512() ? Avx512::sort : has_avx2() ? Avx2::sort : Plain::sort; }

template <class Real>
void map_values(const ColumnMix& mix, std::span<const Real* const> rows, int64_t columns,
                std::span<int64_t> out) {
  const auto map = has_avx512() ? Avx512::map<Real>
                   : has_avx2() ? Avx2::map<Real>
                                : Plain::map<Real>;
  map(mix, rows, static_cast<std::size_t>(columns), out.data());
}

// The places whose values may count.
Window window_of(const ColumnRule& rule, std::size_t n) {
  const auto count = static_cast<std::size_t>(rule.count);
  switch (rule.kind) {
    case ColumnKind::kMedian: return {(n - 1) / 2, rule.lower_median ? (n + 1) / 2 : n / 2 + 1};
    case ColumnKind::kTrimmedMean: return {count, n - count};
    case ColumnKind::kNearMedian: break;
  }
  return {0, n};
}

// One column: its values in the order of the rows, and sorted.
class Column {
 public:
  Column(const ColumnRule& rule, const int64_t* values, std::size_t stride, const Strip* sorted,
         std::size_t at, std::size_t n)
      : values_(values), stride_(stride), sorted_(sorted), at_(at), n_(n) {
    window_ = window_of(rule, n);
    if (rule.kind == ColumnKind::kNearMedian) narrow(rule);
  }

  double mean() const {
    int64_t sum = 0;
    for (std::size_t i = window_.begin; i < window_.end; ++i) sum += sorted(i);
    for (const std::size_t row : chosen_) sum += value(row);
    return static_cast<double>(sum) / static_cast<double>(size()) * 0x1p-44;
  }

  double share_of(std::span<const double> weights) const {
    double found = 0;
    for (std::size_t row = 0; row < n_; ++row) {
      if (weights[row] != 0 && counts(row)) found += weights[row];
    }
    return found / static_cast<double>(size());
  }

 private:
  int64_t value(std::size_t row) const { return values_[row * stride_]; }
  int64_t sorted(std::size_t place) const { return sorted_[place][at_]; }
  std::size_t size() const { return window_.end - window_.begin + chosen_.size(); }

  // Twice the median.
  int64_t twice_median(bool lower) const {
    return sorted((n_ - 1) / 2) + sorted(lower ? (n_ - 1) / 2 : n_ / 2);
  }

  // Leaves the rule.count values nearest to the median, by dropping the farther end.
  void narrow(const ColumnRule& rule) {
    const int64_t centre = twice_median(rule.lower_median);
    int64_t last = 0;  // twice the distance of the value that was dropped last
    while (window_.end - window_.begin > static_cast<std::size_t>(rule.count)) {
      const int64_t below = centre - 2 * sorted(window_.begin);
      const int64_t above = 2 * sorted(window_.end - 1) - centre;
      last = std::max(below, above);
      below > above ? ++window_.begin : --window_.end;
    }
    const int64_t farthest =
        std::max(centre - 2 * sorted(window_.begin), 2 * sorted(window_.end - 1) - centre);
    if (last > 0 && farthest == last) choose(rule, centre);
  }

  // A value that counts is as far as one that does not: the places of their rows decide.
  void choose(const ColumnRule& rule, int64_t centre) {
    chosen_ = all_places(n_);
    std::ranges::stable_sort(chosen_, {},
                             [&](std::size_t row) { return std::abs(2 * value(row) - centre); });
    chosen_.resize(static_cast<std::size_t>(rule.count));
    window_ = {0, 0};
  }

  // Is the row's value among those that are averaged?
  bool counts(std::size_t row) const {
    if (!chosen_.empty()) return std::ranges::count(chosen_, row) > 0;
    const int64_t low = sorted(window_.begin);
    const int64_t high = sorted(window_.end - 1);
    const int64_t own = value(row);
    if (own < low || own > high) return false;
    if (own > low && own < high) return true;
    std::size_t rank = 0;
    for (std::size_t other = 0; other < n_; ++other) {
      rank += value(other) < own || (value(other) == own && other < row);
    }
    return rank >= window_.begin && rank < window_.end;
  }

  const int64_t* values_;
  std::size_t stride_;
  const Strip* sorted_;
  std::size_t at_;
  std::size_t n_;
  Window window_;
  std::vector<std::size_t> chosen_;  // in the place of the window, where rows decide
};

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

void mix_columns(const ColumnRule& rule, std::span<const int64_t> values, std::size_t n,
                 std::span<double> out, const ColumnWatch& watch) {
  const std::size_t columns = out.size();
  const Window window = window_of(rule, n);
  const bool only_sums = rule.kind != ColumnKind::kNearMedian && watch.shares.empty();
  const Network network = network_for(n, window, !only_sums);
  const auto count = static_cast<double>(window.end - window.begin);
  Strip sums;
  const auto sort = sorter();
  std::vector<Strip> strips(n);
  for (std::size_t begin = 0; begin < columns; begin += kStrip) {
    const std::size_t width = std::min(kStrip, columns - begin);
    for (std::size_t i = 0; i < n; ++i) {
      std::ranges::copy(values.subspan(i * columns + begin, width), strips[i].begin());
    }
    sort(strips.data(), network, window, sums);
    for (std::size_t w = 0; w < width && only_sums; ++w) {
      out[begin + w] = static_cast<double>(sums[w]) / count * 0x1p-44;
    }
    for (std::size_t w = 0; w < width && !only_sums; ++w) {
      const Column column(rule, values.data() + begin + w, columns, strips.data(), w, n);
      out[begin + w] = column.mean();
      if (!watch.shares.empty()) watch.shares[begin + w] = column.share_of(watch.weights);
    }
  }
}

}  // namespace hanse
