// Updates as vectors, for rules that see only their inner products.
#pragma once

#include "hanse/rules/aggregation/aggregator.hpp"
#include "rules/aggregation/support.hpp"

namespace hanse {

using Rows = std::vector<Numbers>;

// Normal entries around `common` x a vector of ones, each row with a length of its own.
inline Rows random_rows(std::size_t k, std::size_t length, double common, RandomStream& random) {
  Rows rows(k, Numbers(length));
  for (Numbers& row : rows) {
    const double scale = std::pow(10.0, random.uniform() - 0.5);
    for (double& x : row) x = scale * (common + random.normal());
  }
  return rows;
}

inline Numbers gram_of(const Rows& rows) {
  Numbers gram;
  for (const Numbers& a : rows) {
    for (const Numbers& b : rows) gram.push_back(dot(a, b));
  }
  return gram;
}

inline Numbers combination(std::span<const double> weights, const Rows& rows) {
  Numbers sum(rows.front().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += weights[i] * rows[i][j];
  }
  return sum;
}

inline double norm(const Numbers& v) { return std::sqrt(dot(v, v)); }

inline Numbers scaled(Numbers v, double factor) {
  for (double& x : v) x *= factor;
  return v;
}

// The shortest vector of the hull, on the vectors, by projected gradients.
inline Numbers slow_shortest(const Rows& rows) {
  double steep = 0;
  for (const Numbers& row : rows) steep += dot(row, row);
  const auto gradient = [&](const Numbers& p) {
    const Numbers v = combination(p, rows);
    Numbers slope;
    for (const Numbers& row : rows) slope.push_back(dot(row, v));
    return slope;
  };
  const Numbers start(rows.size(), 1 / static_cast<double>(rows.size()));
  return combination(slow_minimum(gradient, start, 1e-4 * steep, steep), rows);
}

// What a rule makes of updates, their inner products cut into layers of these lengths.
struct Told {
  Rows rows;
  std::vector<std::size_t> layers;  // empty: all in one
  Numbers losses;
  Numbers sizes;         // empty: the same
  Numbers draw_weights;  // empty: 1

  std::size_t k() const { return rows.size(); }
  // Part of every row that lies in layers [begin, end).
  Rows part(std::size_t begin, std::size_t end) const {
    const auto from =
        std::accumulate(layers.begin(), layers.begin() + static_cast<long>(begin), 0L);
    const auto to = std::accumulate(layers.begin(), layers.begin() + static_cast<long>(end), 0L);
    Rows parts;
    for (const Numbers& row : rows) parts.emplace_back(row.begin() + from, row.begin() + to);
    return parts;
  }
  Numbers gram() const {
    if (layers.empty()) return gram_of(rows);
    Numbers all;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const Numbers gram = gram_of(part(l, l + 1));
      all.insert(all.end(), gram.begin(), gram.end());
    }
    return all;
  }
};

inline Mix mix_told(Aggregator& rule, const Told& told) {
  Numbers lambda = told.sizes.empty() ? Numbers(told.k(), 1) : told.sizes;
  lambda = scaled(lambda, 1 / std::accumulate(lambda.begin(), lambda.end(), 0.0));
  const Numbers once(told.k(), 1);
  return rule.mix({.round = 1,
                   .clients = all_clients(static_cast<int64_t>(told.k())),
                   .lambda = lambda,
                   .draw_weights = told.draw_weights.empty() ? once : told.draw_weights,
                   .losses = told.losses,
                   .gram = told.gram()});
}

// The step as a vector.
inline Numbers step_of(const Told& told, const Numbers& coefficients) {
  if (told.layers.empty()) return combination(coefficients, told.rows);
  Numbers step;
  for (std::size_t l = 0; l < told.layers.size(); ++l) {
    const std::span<const double> of_layer(coefficients.data() + l * told.k(), told.k());
    const Numbers part = combination(of_layer, told.part(l, l + 1));
    step.insert(step.end(), part.begin(), part.end());
  }
  return step;
}

}  // namespace hanse
