// The direction in which rows vary most, from their inner products.
#pragma once

#include "distances.hpp"

namespace hanse::robust {

struct TopPair {
  double value = 0;         // the largest variance in a direction
  Eigen::VectorXd shadows;  // [n] (u_i - mu).v, v the direction of unit length; 0 where value is 0
};

// With mu = sum p_i u_i, Z = I - 1 p^T and A = sqrt(p) Z G Z^T sqrt(p): value is A's largest
// eigenvalue and shadows are (Z G Z^T sqrt(p) a)_i / sqrt(value) for its unit vector a. ByzFL makes
// one power iteration from a random vector in the place of the eigenpair. REQUIRES: p >= 0 of sum
// 1. Cost: an eigenvalue problem of size n.
TopPair top_pair(const GramView& gram, const Eigen::VectorXd& p);

// [n, count] (u_i - mu).v of the `count` directions v, of unit length, in which the rows vary most,
// each counted alike. REQUIRES: count <= n.
ByColumns top_shadows(const GramView& gram, Eigen::Index count);

// TopPair::value alone, without eigenvectors: about 4/3 n^3 flops.
double largest_variance(const GramView& gram, const Eigen::VectorXd& p);

}  // namespace hanse::robust
