#include "krum.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "keys.hpp"
#include "mean_of.hpp"
#include "rules.hpp"

namespace hanse::robust {

namespace {

using Places = std::vector<std::size_t>;

// The least sum of `neighbours` squared distances from `from` to the other rows of `among`.
double krum_score(const GramView& gram, const Places& among, std::size_t from,
                  std::size_t neighbours) {
  std::vector<double> distances;
  for (const std::size_t other : among) {
    if (other != from) distances.push_back(gram.squared_distance(from, other));
  }
  std::ranges::sort(distances);
  distances.resize(std::min(neighbours, distances.size()));
  return std::accumulate(distances.begin(), distances.end(), 0.0);
}

// The mean of the `keep` rows of the least scores, which are counted once and not anew for each
// row. REQUIRES: 1 <= keep <= n.
Coefficients mean_of_least(const RobustRound& round, const GramView& gram, int64_t keep) {
  const auto scores = krum_scores(gram, round.f, round.options.variant);
  return mean_of(least_places(scores, static_cast<std::size_t>(keep)), gram.n);
}

constexpr RobustBound kBound{2, 3, "Blanchard et al. 2017", 1};

}  // namespace

std::vector<double> krum_scores(const GramView& gram, const Places& among, int64_t f,
                                Variant variant) {
  const int64_t own = variant == Variant::kReference ? 1 : 2;
  const auto neighbours =
      static_cast<std::size_t>(std::max<int64_t>(1, std::ssize(among) - f - own));
  std::vector<double> scores;
  for (const std::size_t from : among) {
    scores.push_back(krum_score(gram, among, from, neighbours));
  }
  return scores;
}

std::vector<double> krum_scores(const GramView& gram, int64_t f, Variant variant) {
  return krum_scores(gram, all_places(gram.n), f, variant);
}

double krum_margin(const std::vector<double>& scores) {
  if (scores.size() < 2) return 0;
  const Places two = least_places(scores, 2);
  const auto [low, high] = std::minmax(scores[two[0]], scores[two[1]]);
  return high == low ? 0 : (high - low) / low;
}

// Krum (Blanchard et al. 2017): the row of the least score.
RobustRule krum() {
  return {
      .name = "krum",
      .summary = "robust: the update nearest to its neighbours (Blanchard et al. 2017)",
      .keys = variant_key(),
      .bound = kBound,
      .weigh = [](const RobustRound& r, const GramView& gram) { return mean_of_least(r, gram, 1); },
      .chooses = true,
      .scores = true};
}

// Multi-Krum: the mean of the `keep` rows of the least scores. ByzFL keeps n - f; the paper leaves
// the number open.
RobustRule multi_krum() {
  return {
      .name = "multi-krum",
      .summary =
          "robust: mean of the updates nearest to their neighbours (Blanchard et al. "
          "2017)",
      .keys = {variant_key(), key()("keep", &Options::keep, or_auto(at_least(1)),
                                    "updates in the mean; auto: the participants but f")},
      .bound = kBound,
      .weigh =
          [](const RobustRound& r, const GramView& gram) {
            const int64_t all = static_cast<int64_t>(gram.n) - r.f;
            return mean_of_least(r, gram, r.options.keep > 0 ? r.options.keep : all);
          },
      .lacks = [](const RobustOptions& o, int64_t n, int64_t) -> std::optional<InvalidArgument> {
        if (o.keep <= n) return {};
        return InvalidArgument(fmt::format("{} updates cannot be kept of {} rows", o.keep, n),
                               "aggregator.keep", "auto, which keeps the participants but f");
      },
      .chooses = true,
      .scores = true};
}

}  // namespace hanse::robust
