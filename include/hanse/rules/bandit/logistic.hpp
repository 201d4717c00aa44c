// FedGLB-UCB: optimism over a logistic reward that all clients fit together (Li and Wang 2022).
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/rules/bandit/confidence.hpp"
#include "hanse/rules/bandit/linear.hpp"
#include "hanse/rules/bandit/policy.hpp"

namespace hanse {

// The mean reward of arm x is s(x . theta*) with s(z) = 1 / (1 + exp(-z)) and |theta*| <= S. With
// c = s'(S) and A_l = (lambda / c) I + sum x x^T over the pulls that a client knows, its bound of
// an arm is x . theta_r + width alpha |x|_{A_l^{-1}}, theta_r = A_l^{-1} b; `sigma` is R. All
// synchronize when
//   (own pulls since the last synchronization, this one counted)
//     x (log det A_l after it - log det A_l at the last synchronization) > gamma.
// Other pulls move the client's estimate by an online Newton step, kept in |theta| <= S by the
// projection in the norm of A_l. A synchronization fits the joint theta from 0 by accelerated
// gradient descent on
//   F = (1 / N_g) [sum over all N_g pulls of log(1 + exp(x . theta)) - y x . theta
//                  + (lambda / 2) |theta|^2]
// with steps .1 / (1 / 4 + lambda / N_g), until |grad F| <= sqrt(2 lambda / N_g^3) or 2 N_g steps
// are done. The sums go by distinct arm, so a step costs as many inner products and exponentials as
// arms have been pulled. After the authors' program (FedGLB-UCB), which projects on the simplex
// and enlarges alpha by N_g grad F in the place of grad F. sqrt_beta is not used.
//
// `features`: per arm (the row that travels has numbers of pulls and sums of rewards). Scalars of
// a synchronization of N clients: N (d^2 + 1) up, 2 N d a step, N (d^2 + d + 1) down. The
// estimate is the joint theta [d]. REQUIRES: check_options() has passed; rewards of mean in [0, 1].
std::unique_ptr<BanditPolicy> make_logistic_policy(std::shared_ptr<const ArmFeatures> features,
                                                   const UcbOptions& options, int64_t clients);

}  // namespace hanse
