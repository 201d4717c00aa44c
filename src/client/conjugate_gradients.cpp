#include "conjugate_gradients.hpp"

#include <vector>

#include "hanse/base/products.hpp"

namespace hanse {

int64_t conjugate_gradients(const LinearOperator& a, std::span<const double> b, double tolerance,
                            int64_t most, std::span<double> x) {
  std::vector<double> residual(b.begin(), b.end()), image(b.size());
  int64_t products = 0;
  if (inner_product(x, x) > 0 && most > 0) {
    a(x, image);
    ++products;
    for (std::size_t i = 0; i < x.size(); ++i) residual[i] -= image[i];
  }
  std::vector<double> v = residual;
  double squared = inner_product(residual, residual);
  const double enough = tolerance * tolerance * inner_product(b, b);
  for (; squared > enough && products < most; ++products) {
    a(v, image);
    const double curvature = inner_product(v, image);
    if (!(curvature > 0)) break;
    const double step = squared / curvature;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += step * v[i];
      residual[i] -= step * image[i];
    }
    const double before = squared;
    squared = inner_product(residual, residual);
    for (std::size_t i = 0; i < x.size(); ++i) v[i] = residual[i] + squared / before * v[i];
  }
  return products;
}

}  // namespace hanse
