// Robust means whose coefficients differ from row to row, and those by eigenvalues.
#include <cmath>
#include <functional>
#include <limits>

#include "decompositions.hpp"
#include "hanse/rules/aggregation/robust.hpp"
#include "places.hpp"

namespace hanse {

namespace {

using Matrix = ByRows;
using Eigen::Index;
using Eigen::VectorXd;
using Places = std::vector<std::size_t>;

Eigen::Map<const Matrix> matrix_of(const GramView& gram) {
  const auto n = static_cast<Index>(gram.n);
  return {gram.entries.data(), n, n};
}

Coefficients vector_of(const VectorXd& v) { return {v.data(), v.data() + v.size()}; }

// [rows] |u_i - z| for z = sum c_i u_i.
VectorXd distances_to(const GramView& gram, const VectorXd& c, Index rows) {
  const auto g = matrix_of(gram);
  const VectorXd products = g * c;
  const double square = c.dot(products);
  return (g.diagonal().head(rows) - 2 * products.head(rows)).array().unaryExpr([=](double x) {
    return std::sqrt(std::max(0.0, x + square));
  });
}

// [n, n] (u_i - mu).(u_j - mu), mu = sum p_i u_i, p of sum 1.
Matrix centred(const GramView& gram, const VectorXd& p) {
  const auto g = matrix_of(gram);
  const VectorXd products = g * p;
  Matrix result = g;
  result.colwise() -= products;
  result.rowwise() -= products.transpose();
  return result.array() + p.dot(products);
}

struct TopPair {
  double value = 0;  // the largest variance in a direction
  VectorXd shadows;  // [n] (u_i - mu).v, v the direction of unit length; 0 where value is 0
};

TopPair top_pair(const GramView& gram, const VectorXd& p) {
  const Matrix around = centred(gram, p);
  const VectorXd roots = p.cwiseSqrt();
  const Spectrum spectrum = spectrum_of(roots.asDiagonal() * around * roots.asDiagonal());
  const Index last = p.size() - 1;
  TopPair top{.value = std::max(0.0, spectrum.values[last]), .shadows = VectorXd::Zero(p.size())};
  if (top.value == 0) return top;
  const VectorXd a = roots.cwiseProduct(spectrum.vectors.col(last));
  top.shadows = around * a / std::sqrt(top.value);
  return top;
}

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
  const std::vector<double> equal(places.size(), 1 / static_cast<double>(places.size()));
  return largest_variance({entries, places.size()}, equal);
}

}  // namespace

Coefficients geometric_median(const GramView& gram, int64_t iterations, double smoothing) {
  const auto n = static_cast<Index>(gram.n);
  VectorXd w = VectorXd::Zero(n);
  for (int64_t i = 0; i < iterations; ++i) {
    w = distances_to(gram, w, n).cwiseMax(smoothing).cwiseInverse();
    w /= w.sum();
  }
  return vector_of(w);
}

Coefficients centered_clipping(const GramView& gram, std::size_t rows, double radius,
                               int64_t iterations) {
  const auto n = static_cast<Index>(rows);
  VectorXd c = VectorXd::Zero(static_cast<Index>(gram.n));
  if (gram.n > rows) c[n] = 1;
  for (int64_t i = 0; i < iterations; ++i) {
    const VectorXd distances = distances_to(gram, c, n);
    const VectorXd t = distances.unaryExpr([=](double distance) {
      return (distance > radius ? radius / distance : 1) / static_cast<double>(n);
    });
    const bool all = distances.maxCoeff() <= radius;  // then nothing of v is left
    c *= all ? 0 : 1 - t.sum();
    c.head(n) += t;
  }
  return vector_of(c);
}

Coefficients trusted_mean(const GramView& gram) {
  const std::size_t root = gram.n - 1;
  Coefficients c(gram.n);
  double sum = 0;
  for (std::size_t i = 0; i < root; ++i) {
    if (!(gram(i, root) > 0)) continue;
    const double length = std::sqrt(gram(i, i));
    const double trust = gram(i, root) / (length * std::sqrt(gram(root, root)));
    c[i] = trust * std::sqrt(gram(root, root)) / length;
    sum += trust;
  }
  for (double& x : c) x = sum > 0 ? x / sum : 0;
  return c;
}

double largest_variance(const GramView& gram, const std::vector<double>& p) {
  return top_pair(gram, Eigen::Map<const VectorXd>(p.data(), std::ssize(p))).value;
}

Coefficients least_covariance(const GramView& gram, int64_t f) {
  Places best;
  double least = std::numeric_limits<double>::infinity();
  each_subset(gram.n, gram.n - static_cast<std::size_t>(f), [&](const Places& places) {
    const double value = variance_among(gram, places);
    if (!best.empty() && !(value < least)) return;
    best = places;
    least = value;
  });
  return mean_of(best, gram.n);
}

Coefficients covariance_filter(const GramView& gram, int64_t f, Variant variant) {
  const auto n = static_cast<Index>(gram.n);
  const auto enough = static_cast<double>(n - 2 * f);
  Coefficients best = mean_of(all_places(gram.n), gram.n);
  double least = std::numeric_limits<double>::infinity();
  VectorXd c = VectorXd::Ones(n);
  for (int64_t step = 0; step < kFilterSteps && c.sum() > enough; ++step) {
    const VectorXd p = c / c.sum();
    const TopPair top = top_pair(gram, p);
    if (step > 0 && top.value < least) best = vector_of(p);
    least = std::min(least, top.value);
    VectorXd t = top.shadows.cwiseAbs2();
    if (variant != Variant::kReference) t = (c.array() > 0).select(t, 0.0);
    const double most = t.maxCoeff();
    if (!(most > 0)) break;  // nothing is spread any more
    c = c.cwiseProduct((1 - t.array() / most).matrix());
  }
  return best;
}

}  // namespace hanse
