#include "distances.hpp"

#include <algorithm>
#include <cmath>

namespace hanse::robust {

Eigen::VectorXd distances_to(const GramView& gram, const Eigen::VectorXd& c, Eigen::Index rows) {
  const auto g = matrix_of(gram);
  const Eigen::VectorXd products = g * c;
  const double square = c.dot(products);
  return (g.diagonal().head(rows) - 2 * products.head(rows)).array().unaryExpr([=](double x) {
    return std::sqrt(std::max(0.0, x + square));
  });
}

}  // namespace hanse::robust
