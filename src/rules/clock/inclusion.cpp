#include "hanse/rules/clock/inclusion.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// h(s) = C(s, K-1) C(M-2-s, n-K-1) / C(M-1, n-1): the probability that a client with s faster ones
// counts, and one with s + 1 does not. They sum to 1, so that no binomial is computed: from the
// largest one on, each is the one beside it times a ratio of small numbers. REQUIRES: K < n.
// [M]
std::vector<double> last_ranks(int64_t m, int64_t n, int64_t k) {
  const auto ratio = [&](int64_t s) {  // h(s + 1) / h(s)
    return static_cast<double>(s + 1) / static_cast<double>(s + 2 - k) *
           (static_cast<double>(m - 1 - s - n + k) / static_cast<double>(m - 2 - s));
  };
  const int64_t first = k - 1, last = m - 1 - n + k;  // h is 0 elsewhere
  int64_t mode = first;
  for (int64_t step = last - first; step > 0; step /= 2) {  // ratios fall
    while (mode + step <= last && ratio(mode + step - 1) > 1) mode += step;
  }
  std::vector<double> h(to_index(m), 0.0);
  h[to_index(mode)] = 1;
  for (int64_t s = mode; s < last; ++s) h[to_index(s + 1)] = h[to_index(s)] * ratio(s);
  for (int64_t s = mode; s > first; --s) h[to_index(s - 1)] = h[to_index(s)] / ratio(s - 1);
  return h;
}

}  // namespace

std::vector<double> inclusion_probabilities(std::span<const Ticks> durations, int64_t n,
                                            int64_t k) {
  const int64_t m = std::ssize(durations);
  const double share = static_cast<double>(n) / static_cast<double>(m);
  std::vector<double> probabilities(durations.size(), share);
  if (k >= n) return probabilities;
  std::vector<std::size_t> order(durations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return durations[a] < durations[b]; });
  auto counts = last_ranks(m, n, k);
  std::partial_sum(counts.rbegin(), counts.rend(), counts.rbegin());  // of rank r or a later one
  const double all = counts.front();
  const std::size_t unreachable = to_index(m - n + k);
  for (std::size_t r = 0; r < order.size(); ++r) {
    const double p = share * (counts[r] / all);
    probabilities[order[r]] = r < unreachable ? std::max(p, std::numeric_limits<double>::min()) : 0;
  }
  return probabilities;
}

Unreachable unreachable(std::span<const double> probabilities, std::span<const double> lambda) {
  Unreachable found;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] > 0) continue;
    ++found.clients;
    found.share += lambda[i];
  }
  return found;
}

}  // namespace hanse
