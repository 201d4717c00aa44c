// Places of rows in a draw, chosen by numbers; of equal numbers the smaller place comes first.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "hanse/rules/aggregation/gram_view.hpp"

namespace hanse {

// 0, ..., n - 1.
inline std::vector<std::size_t> all_places(std::size_t n) {
  std::vector<std::size_t> places(n);
  std::iota(places.begin(), places.end(), std::size_t{0});
  return places;
}

// The places of the `count` least values, ascending. REQUIRES: count <= values.size(), no NaN.
inline std::vector<std::size_t> least_places(std::span<const double> values, std::size_t count) {
  std::vector<std::size_t> places = all_places(values.size());
  std::ranges::stable_sort(places, {}, [&](std::size_t i) { return values[i]; });
  places.resize(count);
  std::ranges::sort(places);
  return places;
}

// The places of the `count` rows nearest to u_from, itself among them.
inline std::vector<std::size_t> nearest_places(const GramView& gram, std::size_t from,
                                               std::size_t count) {
  std::vector<double> distances(gram.n);
  for (std::size_t i = 0; i < gram.n; ++i) distances[i] = gram.squared_distance(from, i);
  distances[from] = -1;
  return least_places(distances, count);
}

}  // namespace hanse
