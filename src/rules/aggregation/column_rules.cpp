#include "hanse/rules/aggregation/column_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/base/processor.hpp"
#include "places.hpp"

namespace hanse {

namespace {

constexpr std::size_t kStrip = 32;  // columns that are sorted side by side
using Strip = std::array<int64_t, kStrip>;
using Reals = std::array<double, kStrip>;
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
  enum Known { kOutside, kInside, kExact };
  const Network all = sorting_network(n);
  std::vector<Known> places(n, kOutside);
  for (std::size_t i = window.begin; i < window.end; ++i) places[i] = in_order ? kExact : kInside;
  Network kept;
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    Known &low = places[at->first], &high = places[at->second];
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

// Some columns side by side: `width` of values [n, stride], and sorted.
struct ColumnStrip {
  const int64_t* values = nullptr;
  std::size_t stride = 0, width = 0;
  std::vector<Strip> sorted;  // [n]
};

// The mean of each column's window, and whether a value of it is at the end of the lattice.
struct Averages {
  Reals means;
  Strip cut;  // 0: no
};

// Sorts the columns as far as their window needs it, and averages the window of each.
[[gnu::always_inline]] inline void sort_and_average(ColumnStrip& strip, const Network& network,
                                                    const Window& window, Averages& found) {
  Strip* const strips = strip.sorted.data();
  for (std::size_t i = 0; i < strip.sorted.size(); ++i) {
    const int64_t* const from = strip.values + i * strip.stride;
    if (strip.width == kStrip) {
      for (std::size_t w = 0; w < kStrip; ++w) strips[i][w] = from[w];
    } else {
      for (std::size_t w = 0; w < strip.width; ++w) strips[i][w] = from[w];
    }
  }
  exchange_all(strips, network);
  const int64_t limit = lattice_limit(static_cast<int64_t>(strip.sorted.size()));
  Strip sums{}, cut{};
  for (std::size_t i = window.begin; i < window.end; ++i) {
    for (std::size_t w = 0; w < kStrip; ++w) {
      const int64_t z = strips[i][w];
      sums[w] += z;
      cut[w] |= (z >= limit ? 1 : 0) | (-limit >= z ? 1 : 0);
    }
  }
  const auto count = static_cast<double>(window.end - window.begin);
  for (std::size_t w = 0; w < kStrip; ++w) {
    found.means[w] = static_cast<double>(sums[w]) / count * 0x1p-44;
  }
  found.cut = cut;
}

// The mean of `weights` [n] over the rows whose values are in the window of each column. Rows whose
// value is an end of the window take the places that such values have, in their own order.
[[gnu::always_inline]] inline void share_window(const ColumnStrip& strip, const Window& window,
                                                std::span<const double> weights, Reals& shares) {
  const Strip& low = strip.sorted[window.begin];
  const Strip& high = strip.sorted[window.end - 1];
  Strip next_low{}, next_high{};  // the place of the next row whose value is that end
  for (std::size_t row = 0; row < weights.size(); ++row) {
    const int64_t* const own = strip.values + row * strip.stride;
    for (std::size_t w = 0; w < strip.width; ++w) {
      next_low[w] += low[w] > own[w] ? 1 : 0;
      next_high[w] += high[w] > own[w] ? 1 : 0;
    }
  }
  const auto begin = static_cast<int64_t>(window.begin), end = static_cast<int64_t>(window.end);
  shares.fill(0);
  for (std::size_t row = 0; row < weights.size(); ++row) {
    const int64_t* const own = strip.values + row * strip.stride;
    const double weight = weights[row];
    for (std::size_t w = 0; w < strip.width; ++w) {
      const int64_t is_low = own[w] == low[w] ? 1 : 0, is_high = own[w] == high[w] ? 1 : 0;
      // Without branches, so that compilers make vectors of it.
      int64_t outside = (low[w] > own[w] ? 1 : 0) | (own[w] > high[w] ? 1 : 0);
      outside |= is_low & ((next_low[w] < begin ? 1 : 0) | (next_low[w] >= end ? 1 : 0));
      outside |= is_high & (next_high[w] >= end ? 1 : 0);
      next_low[w] += is_low;
      next_high[w] += is_high;
      shares[w] += outside != 0 ? 0.0 : weight;
    }
  }
  for (double& share : shares) share /= static_cast<double>(window.end - window.begin);
}

// The loops for a family of processors; the results are the same.
struct Plain {
  static void sort(ColumnStrip& strip, const Network& network, const Window& window,
                   Averages& found) {
    sort_and_average(strip, network, window, found);
  }
  static void share(const ColumnStrip& strip, const Window& window, std::span<const double> weights,
                    Reals& shares) {
    share_window(strip, window, weights, shares);
  }
};

#if defined(__x86_64__)
struct Avx2 {
  HANSE_AVX2 static void sort(ColumnStrip& strip, const Network& network, const Window& window,
                              Averages& found) {
    sort_and_average(strip, network, window, found);
  }
  HANSE_AVX2 static void share(const ColumnStrip& strip, const Window& window,
                               std::span<const double> weights, Reals& shares) {
    share_window(strip, window, weights, shares);
  }
};
struct Avx512 {
  HANSE_AVX512 static void sort(ColumnStrip& strip, const Network& network, const Window& window,
                                Averages& found) {
    sort_and_average(strip, network, window, found);
  }
  HANSE_AVX512 static void share(const ColumnStrip& strip, const Window& window,
                                 std::span<const double> weights, Reals& shares) {
    share_window(strip, window, weights, shares);
  }
};
#else
using Avx2 = Plain;
using Avx512 = Plain;
#endif

// The places whose values may count.
Window window_of(const ColumnRule& rule, std::size_t n) {
  const auto count = static_cast<std::size_t>(rule.count);
  switch (rule.kind) {
    case ColumnKind::kMedian: return {(n - 1) / 2, rule.lower_median ? (n + 1) / 2 : n / 2 + 1};
    case ColumnKind::kTrimmedMean: return {count, n - count};
    case ColumnKind::kNearMedian:
    case ColumnKind::kOwn: break;
  }
  return {0, n};
}

// One column of the values nearest to the median.
class Column {
 public:
  Column(const ColumnRule& rule, const ColumnStrip& strip, std::size_t at)
      : strip_(strip), at_(at), n_(strip.sorted.size()), window_{0, n_} {
    narrow(rule);
  }

  double mean() const {
    int64_t sum = 0;
    for (std::size_t i = window_.begin; i < window_.end; ++i) sum += sorted(i);
    for (const std::size_t row : chosen_) sum += value(row);
    return static_cast<double>(sum) / static_cast<double>(size()) * 0x1p-44;
  }

  // Is one of the values that decide the mean at the end of the lattice?
  bool is_cut(const ColumnRule& rule) const {
    const int64_t limit = lattice_limit(static_cast<int64_t>(n_));
    const auto cuts = [&](int64_t z) { return z <= -limit || z >= limit; };
    const bool ends = window_.begin < window_.end &&
                      (cuts(sorted(window_.begin)) || cuts(sorted(window_.end - 1)));
    const bool medians = cuts(sorted((n_ - 1) / 2)) || (!rule.lower_median && cuts(sorted(n_ / 2)));
    return ends || medians ||
           std::ranges::any_of(chosen_, [&](std::size_t row) { return cuts(value(row)); });
  }

  double share_of(std::span<const double> weights) const {
    double found = 0;
    for (std::size_t row = 0; row < n_; ++row) {
      if (weights[row] != 0 && counts(row)) found += weights[row];
    }
    return found / static_cast<double>(size());
  }

 private:
  int64_t value(std::size_t row) const { return strip_.values[row * strip_.stride + at_]; }
  int64_t sorted(std::size_t place) const { return strip_.sorted[place][at_]; }
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

  const ColumnStrip& strip_;
  std::size_t at_;
  std::size_t n_;
  Window window_;
  std::vector<std::size_t> chosen_;  // in the place of the window, where rows decide
};

}  // namespace

std::vector<std::size_t> mix_columns(const ColumnRule& rule, std::span<const int64_t> values,
                                     std::size_t n, std::span<double> out,
                                     const ColumnWatch& watch) {
  const Window window = window_of(rule, n);
  const bool near = rule.kind == ColumnKind::kNearMedian, watches = !watch.shares.empty();
  const Network network = network_for(n, window, near || watches);
  const auto sort = has_avx512() ? Avx512::sort : has_avx2() ? Avx2::sort : Plain::sort;
  const auto share = has_avx512() ? Avx512::share : has_avx2() ? Avx2::share : Plain::share;
  std::vector<std::size_t> unknown;
  ColumnStrip strip{.stride = out.size(), .sorted = std::vector<Strip>(n)};
  Averages found;
  Reals shares;
  for (std::size_t begin = 0; begin < out.size(); begin += kStrip) {
    strip.values = values.data() + begin;
    strip.width = std::min(kStrip, out.size() - begin);
    sort(strip, network, window, found);
    if (watches && !near) share(strip, window, watch.weights, shares);
    for (std::size_t w = 0; near && w < strip.width; ++w) {
      const Column column(rule, strip, w);
      found.means[w] = column.mean();
      if (watches) shares[w] = column.share_of(watch.weights);
      found.cut[w] = column.is_cut(rule) ? 1 : 0;
    }
    for (std::size_t w = 0; w < strip.width; ++w) {
      if (found.cut[w] != 0) unknown.push_back(begin + w);
    }
    const auto at = static_cast<std::ptrdiff_t>(begin);
    std::copy_n(found.means.begin(), strip.width, out.begin() + at);
    if (watches) std::copy_n(shares.begin(), strip.width, watch.shares.begin() + at);
  }
  return unknown;
}

}  // namespace hanse
