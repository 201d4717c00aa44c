#include <algorithm>

#include "aggregation/places.hpp"
#include "columns.hpp"
#include "keys.hpp"
#include "krum.hpp"
#include "rules.hpp"

namespace hanse::robust {

namespace {

// n - 2f times Krum among the rows that are left, as Flower runs it. Ascending. Cost: O(n^3 log n).
std::vector<std::size_t> selection(const RobustRound& round, const GramView& gram) {
  std::vector<std::size_t> left = all_places(gram.n), chosen;
  while (std::ssize(chosen) < static_cast<int64_t>(gram.n) - 2 * round.f) {
    const auto scores = krum_scores(gram, left, round.f, round.options.variant);
    const auto best = std::ranges::min_element(scores) - scores.begin();
    chosen.push_back(left[static_cast<std::size_t>(best)]);
    left.erase(left.begin() + best);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace

// Bulyan (El Mhamdi et al. 2018).
RobustRule bulyan() {
  return {.name = "bulyan",
          .summary =
              "robust: Krum's choice, then the mean around the median (El Mhamdi et al. "
              "2018)",
          .keys = variant_key(),
          .bound = {4, 3, "El Mhamdi et al. 2018"},
          .column = [](const RobustOptions& o, int64_t n, int64_t f) -> ColumnRule {
            return {ColumnKind::kNearMedian, n - 4 * f, takes_lower(o)};
          },
          .choose = selection,
          .matrices = 4};
}

}  // namespace hanse::robust
