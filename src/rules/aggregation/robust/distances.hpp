// Rows and their inner products as Eigen's matrices.
#pragma once

#include "decompositions.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse::robust {

inline Eigen::Map<const ByRows> matrix_of(const GramView& gram) {
  const auto n = static_cast<Eigen::Index>(gram.n);
  return {gram.entries.data(), n, n};
}

inline Coefficients vector_of(const Eigen::VectorXd& v) { return {v.data(), v.data() + v.size()}; }

// [rows] |u_i - z| for z = sum c_i u_i:
//   |u_i - z|^2 = G_ii - 2 (G c)_i + c^T G c.
Eigen::VectorXd distances_to(const GramView& gram, const Eigen::VectorXd& c, Eigen::Index rows);

}  // namespace hanse::robust
