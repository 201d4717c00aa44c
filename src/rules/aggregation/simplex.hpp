// Points of the probability simplex {p >= 0, sum p = 1}.
#pragma once

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

}  // namespace hanse
