// Points of the probability simplex {p >= 0, sum p = 1}.
#pragma once

#include <span>
#include <vector>

namespace hanse {

// The point of the simplex nearest to v in the Euclidean norm (Wang and Carreira-Perpinan 2013):
// p_i = max(0, v_i - tau). REQUIRES: v not empty, finite. Cost O(K log K).
std::vector<double> project_to_simplex(std::span<const double> v);

// argmin over the simplex of c.p + p^T H p / 2 for a symmetric positive definite H [K, K],
// row-major. The answer is optimal: all gradients on its support are equal, and no other is
// smaller, to rounding. `start` is a point of the simplex near the answer (its support is tried
// first). Block principal pivoting (Judice and Pires 1994), falling back to single pivots, which
// must end. Cost: one Cholesky factorization of the support a step, mostly one or two.
// Throws InvalidArgument when H is not positive definite.
std::vector<double> minimize_on_simplex(std::span<const double> h, std::span<const double> c,
                                        std::span<const double> start);

// How far p is from optimal: the largest violation of p >= 0, sum p = 1, gradients equal on the
// support and not smaller off it; relative to max(1, |gradient|).
double kkt_residual(std::span<const double> h, std::span<const double> c,
                    std::span<const double> p);

}  // namespace hanse
