#include "sets.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace hanse::robust {

SetSearch::Places SetSearch::best() {
  extend(0, 0);
  return best_;
}

// Adds rows from `next` on to the chosen ones.
void SetSearch::extend(std::size_t next, double bound) {
  if (chosen_.size() == size_) {
    const double here = cost(chosen_, bound);
    if (!best_.empty() && !(here < least_)) return;
    best_ = chosen_;
    least_ = here;
    return;
  }
  for (; next + size_ <= n_ + chosen_.size(); ++next) {
    chosen_.push_back(next);
    const double higher = add(chosen_);
    if (best_.empty() || higher < least_) extend(next + 1, higher);
    forget();
    chosen_.pop_back();
  }
}

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
