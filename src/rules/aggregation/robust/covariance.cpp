#include "covariance.hpp"

#include <algorithm>
#include <cmath>

namespace hanse::robust {

namespace {

// [n, n] (u_i - mu).(u_j - mu), mu = sum p_i u_i, p of sum 1.
ByRows centred(const GramView& gram, const Eigen::VectorXd& p) {
  const auto g = matrix_of(gram);
  const Eigen::VectorXd products = g * p;
  ByRows result = g;
  result.colwise() -= products;
  result.rowwise() -= products.transpose();
  return result.array() + p.dot(products);
}

}  // namespace

TopPair top_pair(const GramView& gram, const Eigen::VectorXd& p) {
  const ByRows around = centred(gram, p);
  const Eigen::VectorXd roots = p.cwiseSqrt();
  const Spectrum spectrum = spectrum_of(roots.asDiagonal() * around * roots.asDiagonal());
  const Eigen::Index last = p.size() - 1;
  TopPair top{.value = std::max(0.0, spectrum.values[last]),
              .shadows = Eigen::VectorXd::Zero(p.size())};
  if (top.value == 0) return top;
  const Eigen::VectorXd a = roots.cwiseProduct(spectrum.vectors.col(last));
  top.shadows = around * a / std::sqrt(top.value);
  return top;
}

ByColumns top_shadows(const GramView& gram, Eigen::Index count) {
  const auto n = static_cast<Eigen::Index>(gram.n);
  const Spectrum spectrum =
      spectrum_of(centred(gram, Eigen::VectorXd::Constant(n, 1 / static_cast<double>(n))));
  const Eigen::VectorXd lengths = spectrum.values.tail(count).cwiseMax(0).cwiseSqrt();
  return spectrum.vectors.rightCols(count) * lengths.asDiagonal();
}

double largest_variance(const GramView& gram, const Eigen::VectorXd& p) {
  const Eigen::VectorXd roots = p.cwiseSqrt();
  const ByColumns shadows = roots.asDiagonal() * centred(gram, p) * roots.asDiagonal();
  return std::max(0.0, eigenvalues_of(shadows)[p.size() - 1]);
}

}  // namespace hanse::robust
