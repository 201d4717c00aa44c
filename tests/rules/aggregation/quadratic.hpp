// Quadratic problems on the simplex, and their solution by elimination.
#pragma once

#include <optional>

#include "rules/aggregation/simplex.hpp"
#include "rules/aggregation/support.hpp"

namespace hanse {

inline Numbers random_vector(std::size_t k, double spread, RandomStream& random) {
  Numbers v(k);
  for (double& x : v) x = spread * random.normal();
  return v;
}

struct Quadratic {
  Numbers h;  // [K, K]
  Numbers c;  // [K]

  std::size_t size() const { return c.size(); }
  Numbers gradient(const Numbers& p) const {
    Numbers g = c;
    for (std::size_t i = 0; i < size(); ++i) {
      g[i] += dot(std::span(h).subspan(i * size(), size()), p);
    }
    return g;
  }
  double value(const Numbers& p) const { return (dot(c, p) + dot(gradient(p), p)) / 2; }
};

// H = ridge I + sum over `terms` of weight a a^T, a with entries around `offset`: with an offset
// one direction outweighs all others, as the mean response does in aaggff-s. c has entries of
// `spread`, with `small` over K: only then do most clients stay in the support.
struct Shape {
  int terms;
  double ridge;
  double weight;
  double offset;
  double spread;
  bool small;
};

inline Quadratic random_problem(std::size_t k, const Shape& shape, RandomStream& random) {
  const double spread = shape.small ? shape.spread / static_cast<double>(k) : shape.spread;
  Quadratic problem{Numbers(k * k), random_vector(k, spread, random)};
  for (std::size_t i = 0; i < k; ++i) problem.h[i * k + i] = shape.ridge;
  for (int term = 0; term < shape.terms; ++term) {
    Numbers a = random_vector(k, 1, random);
    for (double& x : a) x += shape.offset;
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = 0; j < k; ++j) problem.h[i * k + j] += shape.weight * a[i] * a[j];
    }
  }
  return problem;
}

// Mild; one heavy direction; condition numbers up to 1e8; a plain ridge.
inline const Shape kShapes[] = {
    {3, 4, 0.25, 0, 3, false},   {1, 1, 1e4, 10, 3, false},  {20, 1e-2, 1, 3, 3, false},
    {2, 1e-4, 100, 1, 3, false}, {0, 1, 0, 0, 3, false},     {40, 4, 1e-3, 1, 3, false},
    {0, 1, 0, 0, 1, true},       {3, 4, 1e-3, 0, 4, true},   {1, 1, 1e4, 10, 1, true},
    {40, 4, 1e-4, 1, 2, true},   {40, 100, 1, 1, 200, true}, {3, 1e-3, 1e-6, 1, 1e-3, true}};

// Where an entry lies on a face of a box.
enum class At { kLower, kFree, kUpper };

// The minimiser on a face's plane of sum 1, by elimination; nothing when it lies outside the box.
inline std::optional<Numbers> solve_face(const Quadratic& problem, const Numbers& lower,
                                         const Numbers& upper, const std::vector<At>& face) {
  const std::size_t k = problem.size();
  Numbers p(k);
  std::vector<std::size_t> on;
  for (std::size_t i = 0; i < k; ++i) {
    if (face[i] == At::kFree) on.push_back(i);
    if (face[i] == At::kLower) p[i] = lower[i];
    if (face[i] == At::kUpper) p[i] = upper[i];
  }
  const double rest = 1 - std::accumulate(p.begin(), p.end(), 0.0);
  if (on.empty()) return std::abs(rest) < 1e-12 ? std::optional(p) : std::nullopt;
  const Numbers linear = problem.gradient(p);
  const std::size_t n = on.size() + 1;
  std::vector<Numbers> rows(n, Numbers(n + 1));  // H_FF p_F - level = -linear, sum p_F = rest
  for (std::size_t a = 0; a + 1 < n; ++a) {
    for (std::size_t b = 0; b + 1 < n; ++b) rows[a][b] = problem.h[on[a] * k + on[b]];
    rows[a][n - 1] = -1;
    rows[a][n] = -linear[on[a]];
    rows[n - 1][a] = 1;
  }
  rows[n - 1][n] = rest;
  for (std::size_t col = 0; col < n; ++col) {
    const auto pivot = std::max_element(
        rows.begin() + static_cast<std::ptrdiff_t>(col), rows.end(),
        [col](const Numbers& a, const Numbers& b) { return std::abs(a[col]) < std::abs(b[col]); });
    std::swap(rows[col], *pivot);
    for (std::size_t row = 0; row < n; ++row) {
      const double factor = rows[row][col] / rows[col][col];
      if (row == col) continue;
      for (std::size_t j = col; j <= n; ++j) rows[row][j] -= factor * rows[col][j];
    }
  }
  for (std::size_t a = 0; a + 1 < n; ++a) p[on[a]] = rows[a][n] / rows[a][a];
  for (std::size_t i = 0; i < k; ++i) {
    if (p[i] < lower[i] || p[i] > upper[i]) return std::nullopt;
  }
  return p;
}

// Calls visit(face) for every one of the `places`^k faces.
inline void for_faces(std::size_t k, std::size_t places,
                      const std::function<void(const std::vector<At>&)>& visit) {
  std::size_t faces = 1;
  for (std::size_t i = 0; i < k; ++i) faces *= places;
  for (std::size_t code = 0; code < faces; ++code) {
    std::vector<At> face(k);
    std::size_t rest = code;
    for (At& at : face) {
      at = static_cast<At>(rest % places);
      rest /= places;
    }
    visit(face);
  }
}

// The best of the stationary points of all faces is the minimiser. Without bounds above, faces have
// none of their own.
inline Numbers enumerate_minimum(const Quadratic& problem, const Numbers& lower,
                                 const Numbers& upper) {
  Numbers best;
  const bool bounded = std::isfinite(upper[0]);
  for_faces(problem.size(), bounded ? 3 : 2, [&](const std::vector<At>& face) {
    const auto p = solve_face(problem, lower, upper, face);
    if (p && (best.empty() || problem.value(*p) < problem.value(best))) best = *p;
  });
  return best;
}

// How far p is from optimal: the largest violation of the bounds, of sum p = 1, and of the order of
// the gradients: no entry that may fall has a larger one than an entry that may rise; relative to
// max(1, |gradient|).
inline double kkt_residual(const Numbers& h, const Numbers& c, const Numbers& p,
                           const Box& box = {}) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto lower = [&](std::size_t i) { return box.lower.empty() ? 0 : box.lower[i]; };
  const auto upper = [&](std::size_t i) { return box.upper.empty() ? kInfinity : box.upper[i]; };
  const Numbers gradient = Quadratic{h, c}.gradient(p);
  double least = kInfinity;  // of those that may rise
  double largest = 1;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < upper(i)) least = std::min(least, gradient[i]);
    largest = std::max(largest, std::abs(gradient[i]));
  }
  double worst = std::abs(std::accumulate(p.begin(), p.end(), 0.0) - 1);
  for (std::size_t i = 0; i < p.size(); ++i) {
    worst = std::max({worst, lower(i) - p[i], p[i] - upper(i)});
    if (p[i] > lower(i)) worst = std::max(worst, gradient[i] - least);
  }
  return worst / largest;
}

}  // namespace hanse
