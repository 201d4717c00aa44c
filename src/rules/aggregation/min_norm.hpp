// The shortest convex combination of vectors, from their inner products.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simplex.hpp"

namespace hanse {

struct MinNorm {
  std::vector<double> weights;  // [K], of sum 1
  double squared_norm = 0;      // of v = sum weights_i u_i
  double ridge = 0;             // relative: ridge |u_i|^2 was added to |u_i|^2
  bool stationary = false;      // v = 0, up to rounding
};

// argmin over the box of |sum p_i u_i|^2 by minimize_on_simplex, gram [K, K] = u_i.u_j. Without a
// box u_i.v >= |v|^2 for all i, with equality where p_i > 0: either v is stationary, or every u_i
// has a positive product with it (Desideri 2012). When the vectors are not affinely independent
// (more of them than their length, or parallel ones), a ridge from 1e-10 on, tenfold until the form
// is well posed, makes the answer unique: of combinations equally long, the one that spreads its
// weight most evenly. Scaling all vectors changes nothing. Zero is what is below 3e-6 (with a ridge
// 1.4e-5) of the length that its terms have without cancelling: float32 vectors tell no more.
// Throws InvalidArgument when `gram` is no Gram matrix. REQUIRES: K >= 1, and with a box no zero
// vector. Cost: O(K^3).
MinNorm min_norm(std::span<const double> gram, int64_t k, const Box& box = {});

}  // namespace hanse
