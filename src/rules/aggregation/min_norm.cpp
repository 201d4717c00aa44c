#include "min_norm.hpp"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>
#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::VectorXd;

constexpr double kWorstCondition = 1e-13;  // reciprocal
constexpr double kFirstRidge = 1e-10;      // far above the rounding of inner products
constexpr double kLastRidge = 1e-3;        // rounding never needs as much
constexpr double kZero = 1e-11;            // a squared length, relative

// Scaled to a unit diagonal: how long the vectors are says nothing about the form.
bool well_posed(const Matrix& h) {
  const VectorXd scale = h.diagonal().cwiseSqrt().cwiseInverse();
  const Eigen::LLT<Matrix> factor(scale.asDiagonal() * h * scale.asDiagonal());
  return factor.info() == Eigen::Success && factor.rcond() > kWorstCondition;
}

// The form to minimise, in units of the shortest vector. `+ 1 1^T` adds a constant on the plane
// sum p = 1, and makes the form definite for affinely independent vectors.
Matrix definite_form(const Matrix& g, double& ridge) {
  const Matrix shifted = (g / g.diagonal().minCoeff()).array() + 1;
  for (ridge = 0; ridge <= kLastRidge; ridge = std::max(kFirstRidge, 10 * ridge)) {
    Matrix h = shifted;
    h.diagonal() += ridge * (shifted.diagonal().array() - 1).matrix();
    if (well_posed(h)) return h;
  }
  throw InvalidArgument("the inner products of the updates are no Gram matrix", "aggregator",
                        "they have a negative eigenvalue");
}

void require_products(const Matrix& g) {
  if (g.allFinite() && g.diagonal().minCoeff() >= 0) return;
  throw InvalidArgument("the inner products of the updates are no Gram matrix", "aggregator",
                        "they are finite, and squares are not negative");
}

// A point of the box to start at.
std::vector<double> middle(const Box& box, std::size_t k) {
  std::vector<double> start(k, 1 / static_cast<double>(k));
  for (std::size_t i = 0; i < box.lower.size(); ++i) start[i] = (box.lower[i] + box.upper[i]) / 2;
  return start;
}

}  // namespace

MinNorm min_norm(std::span<const double> gram, int64_t k, const Box& box) {
  const auto n = static_cast<std::size_t>(k);
  const Matrix g = Eigen::Map<const Matrix>(gram.data(), k, k);
  require_products(g);
  MinNorm found;
  Eigen::Index least = 0;
  if (box.upper.empty() && g.diagonal().minCoeff(&least) == 0) {
    found.weights.assign(n, 0);
    found.weights[static_cast<std::size_t>(least)] = 1;
    found.stationary = true;
    return found;
  }
  const Matrix h = definite_form(g, found.ridge);
  const std::span<const double> form(h.data(), n * n);
  found.weights = minimize_on_simplex(form, std::vector<double>(n), middle(box, n), box);
  const auto p = Eigen::Map<const VectorXd>(found.weights.data(), k);
  found.squared_norm = std::max(0.0, p.dot(g * p));
  const double length = p.dot(g.diagonal().cwiseSqrt());  // without cancelling
  const bool zero = found.squared_norm <= std::max(kZero, 2 * found.ridge) * length * length;
  found.stationary = zero || (box.upper.empty() && (g * p).minCoeff() <= 0);
  return found;
}

}  // namespace hanse
