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

// The exchanges on which the sorted places of the window depend.
Network network_for(std::size_t n, const Window& window) {
  const Network all = sorting_network(n);
  std::vector<char> needed(n);
  for (std::size_t i = window.begin; i < window.end; ++i) needed[i] = 1;
  Network kept;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (!needed[at->first] && !needed[at->second]) continue;
    needed[at->first] = needed[at->second] = 1;
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

void sort_plain(Strip* strips, const Network& network) { exchange_all(strips, network); }

#if defined(__x86_64__)
HANSE_AVX2 void sort_avx2(Strip* strips, const Network& network) { exchange_all(strips, network); }
HANSE_AVX512 void sort_avx512(Strip* strips, const Network& network) {
  exchange_all(strips, network);
}
#else
constexpr auto sort_avx2 = sort_plain;
constexpr auto sort_avx512 = sort_plain;
#endif

auto sorter() { return has_avx512() ? sort_avx512 : has_avx2() ? sort_avx2 : sort_plain; }

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

template <class Real>
void map_values(const ColumnMix& mix, std::span<const Real* const> rows, int64_t columns,
                std::span<int64_t> out) {
  const auto size = static_cast<std::size_t>(columns);
  const int64_t limit = lattice_limit(mix.n);
  std::vector<double> sum(size);
  for (std::size_t a = 0; a < static_cast<std::size_t>(mix.n); ++a) {
    std::ranges::fill(sum, 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double weight = mix.map[a * rows.size() + i];
      for (std::size_t j = 0; weight != 0 && j < size; ++j) {
        sum[j] += weight * static_cast<double>(rows[i][j]);
      }
    }
    for (std::size_t j = 0; j < size; ++j) out[a * size + j] = to_lattice(sum[j], limit);
  }
}

}  // namespace

int64_t lattice_limit(int64_t n) { return (int64_t{1} << 62) / std::max<int64_t>(n, 4); }

int64_t to_lattice(double u, int64_t limit) {
  const double z = std::nearbyint(u * 0x1p44);
  if (std::abs(z) >= static_cast<double>(limit)) return u < 0 ? -limit : limit;
  return static_cast<int64_t>(z);
}

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
  const Network network = network_for(n, window_of(rule, n));
  const auto sort = sorter();
  std::vector<Strip> strips(n);
  for (std::size_t begin = 0; begin < columns; begin += kStrip) {
    const std::size_t width = std::min(kStrip, columns - begin);
    for (std::size_t i = 0; i < n; ++i) {
      std::ranges::copy(values.subspan(i * columns + begin, width), strips[i].begin());
    }
    sort(strips.data(), network);
    for (std::size_t w = 0; w < width; ++w) {
      const Column column(rule, values.data() + begin + w, columns, strips.data(), w, n);
      out[begin + w] = column.mean();
      if (!watch.shares.empty()) watch.shares[begin + w] = column.share_of(watch.weights);
    }
  }
}

}  // namespace hanse
