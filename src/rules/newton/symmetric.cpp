#include "hanse/rules/newton/symmetric.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "decompositions.hpp"
#include "hanse/base/divergence.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// Fills both triangles. REQUIRES: packed.size() == packed_size(d).
Eigen::MatrixXd unpack(std::span<const double> packed, int64_t d) {
  Eigen::MatrixXd matrix(d, d);
  const double* next = packed.data();
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = i; j < d; ++j) matrix(i, j) = matrix(j, i) = *next++;
  }
  return matrix;
}

// Takes the upper triangle of `matrix`.
void pack(const Eigen::MatrixXd& matrix, std::span<double> packed) {
  double* next = packed.data();
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    for (int64_t j = i; j < matrix.cols(); ++j) *next++ = matrix(i, j);
  }
}

Eigen::Map<const Eigen::VectorXd> as_vector(std::span<const double> g) {
  return {g.data(), static_cast<Eigen::Index>(g.size())};
}

std::vector<double> values_of(const Eigen::VectorXd& v) { return {v.begin(), v.end()}; }

}  // namespace

double frobenius_norm(std::span<const double> packed, int64_t d) {
  double sum = 0;
  const double* next = packed.data();
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = i; j < d; ++j, ++next) sum += (i == j ? 1 : 2) * *next * *next;
  }
  return std::sqrt(sum);
}

void compress_rank(std::span<double> packed, int64_t d, int64_t r) {
  if (r >= d) return;
  const auto [values, vectors] = spectrum_of(unpack(packed, d));  // the largest are at the ends
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(d, d);
  Eigen::Index low = 0, high = d - 1;
  for (int64_t kept = 0; kept < r; ++kept) {
    const Eigen::Index k = std::abs(values[high]) >= std::abs(values[low]) ? high-- : low++;
    sum += values[k] * vectors.col(k) * vectors.col(k).transpose();
  }
  pack(sum, packed);
}

void compress_top(std::span<double> packed, int64_t k) {
  if (k >= static_cast<int64_t>(packed.size())) return;
  std::vector<std::size_t> order(packed.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto larger = [&](std::size_t a, std::size_t b) {
    const double left = std::abs(packed[a]), right = std::abs(packed[b]);
    return left > right || (left == right && a < b);
  };
  const auto rest = order.begin() + k;
  std::nth_element(order.begin(), rest, order.end(), larger);
  std::for_each(rest, order.end(), [&](std::size_t entry) { packed[entry] = 0; });
}

std::vector<double> shifted_newton_direction(std::span<const double> h, double shift,
                                             std::span<const double> g) {
  Eigen::MatrixXd matrix = unpack(h, static_cast<int64_t>(g.size()));
  matrix.diagonal().array() += shift;
  if (!matrix.allFinite()) {
    throw NotFinite("the Hessian is not finite", "", "a smaller server.lr may help");
  }
  const Cholesky<ByColumns> root(std::move(matrix));
  if (!root.exists()) {
    throw InvalidArgument(fmt::format("H + {:.6g} I is not positive definite", shift), "",
                          "a model that is convex needs client.weight-decay, another one "
                          "client.safeguard = projection");
  }
  return values_of(root.solve(as_vector(g)));
}

std::vector<double> projected_newton_direction(std::span<const double> h, double mu,
                                               std::span<const double> g) {
  const auto [values, vectors] = spectrum_of(unpack(h, static_cast<int64_t>(g.size())));
  const Eigen::VectorXd raised = values.cwiseMax(mu);
  const Eigen::VectorXd turned = vectors.transpose() * as_vector(g);
  return values_of(vectors * turned.cwiseQuotient(raised));
}

}  // namespace hanse
