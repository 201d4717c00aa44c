// Points of the probability simplex {p >= 0, sum p = 1}, and shortest convex combinations of
// vectors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// The point of the simplex nearest to v in the Euclidean norm (Wang and Carreira-Perpinan 2013):
// p_i = max(0, v_i - tau). REQUIRES: v not empty, finite. Cost O(K log K).
std::vector<double> project_to_simplex(std::span<const double> v);

// lower <= p <= upper, [K] each; empty: 0, and no upper bound. A part of the simplex when
// sum lower <= 1 <= sum upper.
struct Box {
  std::span<const double> lower = {};
  std::span<const double> upper = {};
};

// argmin over {lower <= p <= upper, sum p = 1} of c.p + p^T H p / 2 for a symmetric positive
// definite H [K, K], row-major. The answer is optimal: all gradients inside the box are equal, none
// at a lower bound is smaller and none at an upper one larger, to rounding. `start` lies near the
// answer (the set of its entries inside the box is tried first). Block principal pivoting (Judice
// and Pires 1994), falling back to a primal active-set method, which must end: it goes from one
// minimiser of a face of the box to a better one. Cost: one Cholesky factorization of the entries
// inside the box a step, mostly one or two.
// Throws InvalidArgument when H is not positive definite. REQUIRES: the box holds a point of sum 1.
std::vector<double> minimize_on_simplex(std::span<const double> h, std::span<const double> c,
                                        std::span<const double> start, const Box& box = {});

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
// 1.4e-5) of the length that its terms have without cancelling: float32 vectors have no more
// digits. Throws InvalidArgument when `gram` is no Gram matrix. REQUIRES: K >= 1, and with a box no
// zero vector. Cost: O(K^3).
MinNorm min_norm(std::span<const double> gram, int64_t k, const Box& box = {});

}  // namespace hanse
