#include "sets.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace hanse::robust {

int64_t combinations(int64_t n, int64_t k, int64_t most) {
  k = std::min(k, n - k);
  double count = 1;
  for (int64_t i = 1; i <= k && count < static_cast<double>(most); ++i) {
    count = std::round(count * static_cast<double>(n - k + i) / static_cast<double>(i));
  }
  return count < static_cast<double>(most) ? static_cast<int64_t>(count) : most;
}

std::optional<InvalidArgument> too_many_sets(const RobustOptions&, int64_t n, int64_t f) {
  if (combinations(n, f, kMostSets + 1) <= kMostSets) return {};
  return InvalidArgument(
      fmt::format("{} rows have more than {} sets without {} of them", n, kMostSets, f),
      "aggregator.kind", "draw fewer participants, or use a rule that looks at no sets");
}

}  // namespace hanse::robust
