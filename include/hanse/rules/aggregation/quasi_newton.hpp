// DQN-Fed (Mohajer Hamidi and Ye 2025): a step that lowers every participant's loss at the rate of
// its own quasi-Newton step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// d = g^T B g (eq. 18) with B the inverse BFGS matrix of n pairs s = difference of models, y =
// difference of gradients, oldest first, that starts from B_0 = (s.y / y.y of the last) I. `gram`
// [2n + 1, 2n + 1] holds the inner products of s_1, y_1, ..., s_n, y_n, g. With V_i = I - rho_i y_i
// s_i^T and rho_i = 1/(s_i.y_i), B = V^T B_before V + rho s s^T, so d is a sum of squares. Products
// with an s other than s_i.y_j for i <= j and s_i.g need only be finite. REQUIRES: n >= 1, every
// s_i.y_i > 0. Cost: O(n^3), no vector.
double lbfgs_rate(std::span<const double> gram, int64_t n);

// Is a pair fit for BFGS, that is s.y > 1e-8 |s| |y|? It keeps B positive definite, so d > 0.
bool has_curvature(double s_s, double s_y, double y_y);

// The shortest x with g_k.x = d_k for all k: x = sum c_k g_k with G c = d, G the gradients' Gram
// matrix [K, K]. It is the whole server step of the paper (eqs. 7, 8, 12, 16, 17): with the
// orthogonalized gradients gt_k, eta = S = sum 1/|gt_k|^2 and theta moves by -x, whatever the order
// of the clients. Cholesky of the matrix scaled to a unit diagonal, and one step of iterative
// refinement; when it fails, the condition exceeds 1e12, or the c_k g_k cancel to less than 1e-4 of
// their lengths (float32 rows have no more digits to spare), as for parallel gradients, e tr(G)/K
// is added to the diagonal, from e = 1e-12 on, tenfold until it is well posed. Some g_k.x may then
// differ from d_k, and need not be positive (view_step shows it). The coefficients are c, 0 of
// gradients that are zero. Throws InvalidArgument when `gram` is no Gram matrix. Cost: O(K^3).
Mix solve_rates(std::span<const double> gram, std::span<const double> rates);

// theta <- theta - t x, x by solve_rates on the participants, t = min(1, radius/|x|,
// 1000/max |c_k g_k|); radius 0: no limit. `backtrack` halvings of the step are tried until no
// participant's loss rises, and no step is taken when all raise some; 0: off. Every participant
// counts once: the draws' weights do not enter.
// Known weakness: Theorem 4.2 asks for S <= (2/L) min d_k, which nothing enforces but `radius` and
// `backtrack`; near Pareto-stationary points G is close to singular and x long, and the method as
// printed (both at 0) diverges on networks.
// REQUIRES: radius >= 0, backtrack >= 0.
std::unique_ptr<Aggregator> make_dqn_fed(double radius, int64_t backtrack);

}  // namespace hanse
