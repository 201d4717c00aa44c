// FedHEAL: clients whose updates move the model far count more; noisy entries do not count.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// FedHEAL (Chen, Huang and Ye 2024). An entry of an update u_i = theta_i - theta counts only if the
// client has had its sign in more than the share `threshold` of its rounds
// (client/sign_memory.hpp); m_i [P] is 1 there and 0 elsewhere. The rule weighs clients by d_i, the
// sum of the norms of m_i u_i over the model's tensors:
//   delta_i <- (1 - beta) delta_i + beta d_i / sum_j d_j
//   w_i <- w_i + delta_i
//   p_i = w_i / sum_j w_j
// delta_i = 0 and w_i = 1/M at first. The sum of the d_j is over all clients that ever took part,
// absent ones with their last distance; the sum of w is over the participants. Then, entry by
// entry, theta <- theta + sum p_i m_i u_i / sum p_i m_i, and 0 where no m_i is 1.
// Neither the clients' sizes nor the draws' weights enter. Where all distances are 0, delta_i
// shrinks alone. mix() gives p; the division by entries is the sink's. Known weakness: w_i grows
// without end, so that late rounds change p little. REQUIRES: clients >= 1, 0 <= threshold < 1, 0
// <= beta <= 1. Cost a round: O(M).
std::unique_ptr<Aggregator> make_fedheal(double threshold, double beta, int64_t clients);

}  // namespace hanse
