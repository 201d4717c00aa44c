// Fair aggregation: by the participants' losses AFL, q-FedAvg, TERM and the superquantile; and
// FedHEAL, for which clients whose updates move the model far count more, and noisy entries do not.
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// Agnostic federated learning (Mohri et al. 2019, algorithm STOCHASTIC-AFL):
//   lambda <- projection on the simplex of (lambda + rate * F).
// The new lambda weights the round's updates. Under partial participation F_i of a participant
// counts with its draw's weight and the others' as 0 (`restricted` = false), or only the
// participants' part of lambda is projected, to sum 1, and the others keep theirs (`restricted` =
// true, as AAggFF's authors run it). Full participation is what the method is made for.
// REQUIRES: clients >= 1, rate > 0. Cost a round: O(K log K); O(m log m) restricted.
std::unique_ptr<Aggregator> make_afl(double rate, bool restricted, Estimator estimator,
                                     int64_t clients);

// q-FedAvg (Li et al. 2020, algorithm 2): with Delta_i = L (theta - theta_i),
//   theta <- theta - sum s_i F_i^q Delta_i / sum s_i h_i,  h_i = q F_i^{q-1} |Delta_i|^2 + L F_i^q,
// which minimises sum q_i F_i^{q+1} / (q + 1), q_i the clients' samples (as in table 1 of Hahn
// et al. 2024) or the same for all, by `weights`, and s_i = q_i times the draw's
// weight: draws by samples leave the plain sums that the authors ran. q = 0 is the mean by s_i. The
// denominator needs the norms, so it comes after training, as the scale of the step. Losses of 0
// count as 1e-10.
// REQUIRES: q >= 0, lipschitz (L, mostly 1 / client.lr) > 0. Cost a round: O(participants).
std::unique_ptr<Aggregator> make_qfedavg(double q, double lipschitz, ClientWeights weights);

// TERM (Li et al. 2021), the tilted mean (1/t) log sum q_i exp(t F_i) over clients: weights ~
// q_i exp(t F_i) times the draw's weight, normalised over the participants, since the sum over all
// clients is not known; q_i as above. t = `temperature` > 0 leans to the worst-off.
// Cost a round: O(participants).
std::unique_ptr<Aggregator> make_term(double temperature, ClientWeights weights);

// The superquantile (Laguel et al. 2021; Delta-FL, Pillutla et al. 2023): the mean over the share
// `tail` of the samples whose clients have the largest losses. With c_i the participants' samples
// times their draws' weights, normalised to sum 1, the weights are
//   argmax sum q_i F_i  over  0 <= q_i <= c_i / tail, sum q_i = 1:
// the worst-off get c_i / tail until all is given. tail = 1 is fedavg by samples.
// REQUIRES: 0 < tail <= 1. Cost a round: O(m log m).
std::unique_ptr<Aggregator> make_superquantile(double tail);

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
