// Symmetric matrices [d, d] as their packed upper triangle, row by row: d (d + 1)/2 float64. Their
// compression, and Newton directions by them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

inline int64_t packed_size(int64_t d) { return d * (d + 1) / 2; }

// sqrt of the sum of the squares of all d^2 entries. Cost O(d^2).
double frobenius_norm(std::span<const double> packed, int64_t d);

// Contractive compressors: |C(M)| <= |M| and |C(M) - M| < |M| unless M = 0, in the Frobenius norm,
// so that M <- M - C(M) again and again goes to 0. Both overwrite a matrix with its compression.

// Rank-r: the r eigenpairs of largest |eigenvalue|; |C(M) - M|^2 <= (1 - r/d) |M|^2. The matrix
// itself when r >= d. Cost: an eigenvalue decomposition, about 10 d^3 flops.
void compress_rank(std::span<double> packed, int64_t d, int64_t r);

// Top-k: the k entries of the upper triangle of largest |value|, the first of equals;
// |C(M) - M|^2 <= (1 - k/d^2) |M|^2, since the diagonal counts once in the norm and the rest twice.
// Cost O(d^2).
void compress_top(std::span<double> packed, int64_t k);

// (H + shift I)^-1 g, H packed [d, d], g [d]. Throws InvalidArgument when the
// matrix is not positive definite. Cost: a Cholesky factorization, d^3/3 flops.
std::vector<double> shifted_newton_direction(std::span<const double> h, double shift,
                                             std::span<const double> g);

// [H]_mu^-1 g, where [H]_mu is the nearest matrix with no eigenvalue below mu: eigenvalues below mu
// are raised to it. REQUIRES: mu > 0. Cost: an eigenvalue decomposition, about 10 d^3 flops.
std::vector<double> projected_newton_direction(std::span<const double> h, double mu,
                                               std::span<const double> g);

}  // namespace hanse
