#include <functional>
#include <limits>

#include "covariance.hpp"
#include "mean_of.hpp"
#include "rules.hpp"
#include "sets.hpp"

namespace hanse::robust {

namespace {

using Places = std::vector<std::size_t>;

// Calls take(places) for each set of `size` of n places, in lexicographic order.
void each_subset(std::size_t n, std::size_t size, const std::function<void(const Places&)>& take) {
  Places places = all_places(size);
  while (true) {
    take(places);
    std::size_t at = size;
    while (at > 0 && places[at - 1] == n - size + at - 1) --at;
    if (at == 0) return;
    ++places[at - 1];
    for (; at < size; ++at) places[at] = places[at - 1] + 1;
  }
}

// The largest variance of the rows in `places`, each counted alike.
double variance_among(const GramView& gram, const Places& places) {
  std::vector<double> entries;
  for (const std::size_t i : places) {
    for (const std::size_t j : places) entries.push_back(gram(i, j));
  }
  const auto n = static_cast<Eigen::Index>(places.size());
  const auto equal = Eigen::VectorXd::Constant(n, 1 / static_cast<double>(n));
  return top_pair({entries, places.size()}, equal).value;
}

Coefficients least_covariance(const RobustRound& round, const GramView& gram) {
  Places best;
  double least = std::numeric_limits<double>::infinity();
  each_subset(gram.n, gram.n - static_cast<std::size_t>(round.f), [&](const Places& places) {
    const double value = variance_among(gram, places);
    if (!best.empty() && !(value < least)) return;
    best = places;
    least = value;
  });
  return mean_of(best, gram.n);
}

}  // namespace

// SMEA (Allouah et al. 2023, ByzFL): the mean of those n - f rows whose covariance has the least
// largest eigenvalue, the lexicographically first of such sets. Cost: C(n, f) eigenvalue problems
// of size n - f.
RobustRule smea() {
  return {.name = "smea",
          .summary = "robust: mean of the set of least variance (Allouah et al. 2023)",
          .bound = {2, 1, "Allouah et al. 2023"},
          .weigh = least_covariance,
          .lacks = too_many_sets,
          .chooses = true,
          .matrices = 5};
}

}  // namespace hanse::robust
