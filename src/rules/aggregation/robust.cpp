#include "hanse/rules/aggregation/robust.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "hanse/rules/aggregation/aggregator.hpp"
#include "places.hpp"

namespace hanse {

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

std::vector<double> scores_among(const GramView& gram, const Places& among, int64_t f,
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

// Searches the sets of n - f rows in lexicographic order.
class DiameterSearch {
 public:
  DiameterSearch(const GramView& gram, std::size_t size) : gram_(gram), size_(size) {}

  Places search() {
    extend(0, 0);
    return best_;
  }

 private:
  // Adds rows from `next` on to the chosen ones, whose squared diameter is `width`.
  void extend(std::size_t next, double width) {
    if (chosen_.size() == size_) {
      best_ = chosen_;
      least_ = width;
      return;
    }
    for (; next + size_ <= gram_.n + chosen_.size(); ++next) {
      double wider = width;
      for (const std::size_t other : chosen_) {
        wider = std::max(wider, gram_.squared_distance(other, next));
      }
      if (!best_.empty() && !(wider < least_)) continue;
      chosen_.push_back(next);
      extend(next + 1, wider);
      chosen_.pop_back();
    }
  }

  const GramView& gram_;
  std::size_t size_;
  Places chosen_;
  Places best_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Coefficients mean_of(const Places& places, std::size_t n) {
  const std::vector<double> shares(places.size(), 1 / static_cast<double>(places.size()));
  const std::vector<double> once(places.size(), 1);
  const auto equal = estimate(shares, once, Estimator::kNormalized);
  Coefficients coefficients(n);
  for (const std::size_t place : places) coefficients[place] = equal.front();
  return coefficients;
}

std::vector<double> krum_scores(const GramView& gram, int64_t f, Variant variant) {
  return scores_among(gram, all_places(gram.n), f, variant);
}

Coefficients multi_krum(const GramView& gram, int64_t f, int64_t keep, Variant variant) {
  return mean_of(least_places(krum_scores(gram, f, variant), static_cast<std::size_t>(keep)),
                 gram.n);
}

double krum_margin(const std::vector<double>& scores) {
  if (scores.size() < 2) return 0;
  const Places two = least_places(scores, 2);
  const auto [low, high] = std::minmax(scores[two[0]], scores[two[1]]);
  return high == low ? 0 : (high - low) / low;
}

Places bulyan_selection(const GramView& gram, int64_t f, Variant variant) {
  Places left = all_places(gram.n);
  Places chosen;
  while (std::ssize(chosen) < static_cast<int64_t>(gram.n) - 2 * f) {
    const auto scores = scores_among(gram, left, f, variant);
    const auto best = std::ranges::min_element(scores) - scores.begin();
    chosen.push_back(left[static_cast<std::size_t>(best)]);
    left.erase(left.begin() + best);
  }
  std::ranges::sort(chosen);
  return chosen;
}

Coefficients smallest_diameter(const GramView& gram, int64_t f) {
  return mean_of(DiameterSearch(gram, gram.n - static_cast<std::size_t>(f)).search(), gram.n);
}

Coefficients nearest_to(const GramView& gram, int64_t f, std::size_t pivot) {
  return mean_of(nearest_places(gram, pivot, gram.n - static_cast<std::size_t>(f)), gram.n);
}

int64_t combinations(int64_t n, int64_t k, int64_t most) {
  k = std::min(k, n - k);
  double count = 1;
  for (int64_t i = 1; i <= k && count < static_cast<double>(most); ++i) {
    count = std::round(count * static_cast<double>(n - k + i) / static_cast<double>(i));
  }
  return count < static_cast<double>(most) ? static_cast<int64_t>(count) : most;
}

}  // namespace hanse
