// Samplers that learn from the participants' reports: online stochastic mirror descent on bandit
// feedback (Zhao, Wang, Liu, Zhang, Zhou, Chen and Kolar 2025: "osmd", "adaptive-osmd" and
// "osmd-doubling"), and those that it is compared with (section 7: "mabs", "vrb" and "avare").
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/rules/sampling/options.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// E of Algorithm 5 for T rounds: ceil(log2(1 + 4 log(M/alpha)/log M (T - 1))/2) + 1; 1 for M = 1.
int64_t osmd_experts(double alpha, int64_t clients, int64_t rounds);

struct OsmdRates {
  std::vector<double> eta;  // [E], eq. 22: 2^(e-1) K alpha^3/(M^3 A_max) sqrt(2 log M / T)
  double gamma = 0;         // Theorem 8: alpha/M sqrt(8 K/(T A_max))
};

// REQUIRES: a_max > 0.
OsmdRates osmd_rates(const LearningOptions& options, int64_t clients, int64_t per_round,
                     int64_t rounds, double a_max);

// In all of these samplers q_m is p_m over the available; a round in which everyone available takes
// part teaches nothing. The makers throw InvalidArgument for an option outside its range, no
// horizon where one is needed, or K above M without replacement.

// Each expert e keeps a distribution p_e over {p >= alpha/M}; the clients are drawn from
// p = sum_e theta_e p_e. After a round with a_m from the drawn,
//   p_e <- projection of p_e exp(eta_e N_m a_m/(K^2 p_e^2 q_m))     (Algorithm 2)
//   theta_e <- theta_e exp(-gamma l_e), normalised; l_e = 1/K^2 sum_m N_m a_m/(p_e q_m).
// reference: a client drawn twice counts once in the gradient, the learning rates are K/2 times the
// paper's, weights that underflow start again. corrected: gamma does not change with the unit of
// the loss, K alpha^2/(M^2 A) sqrt(8/T).
//
// `initial` [M] is the first distribution of every expert, empty for uniform; it may lie below the
// floor until the first update. Cost a round: O(E K log M), memory O(E) a client drawn so far and
// M/8 bytes; with `initial`, O(E M) memory.
std::unique_ptr<ClientSampler> make_osmd_sampler(const LearningOptions& options, int64_t clients,
                                                 int64_t per_round,
                                                 std::span<const double> initial = {});

// MABS (Salehi, Celis and Thiran 2017):
//   p_i = (1 - eta) w_i/sum w + eta/M,   w_i <- w_i exp(delta a_i/(p_i^2 q_i)) for every draw of i,
// weights 1 at first and kept as logarithms.
//
// A in delta: the mean over all clients of a_i^2 (paper, read so that p does not depend on the unit
// of the loss) or of a_i (reference, where it does), by the a_i before the first round.
// BoundSource::kRunning takes the largest a_i seen so far for every a_i; a larger one changes later
// updates alone.
//
// Known weakness: the updates' variance, for a_i/p_i^3 is up to (M/eta)^3 a_i. Cost a round:
// O(K log M), and O(rows) when the largest log-weight has grown by 600; memory: two numbers a
// client drawn so far and M/8 bytes.
std::unique_ptr<ClientSampler> make_mabs_sampler(const LearningOptions& options, int64_t clients,
                                                 int64_t per_round);

// VRB (Borsos, Krause and Levy 2018, the algorithm for bandit feedback):
//   p_i = (1 - theta) sqrt(w_i + gamma)/sum_j sqrt(w_j + gamma) + theta/M,
//   w_i <- w_i + l_i^2/q_i for every draw of i,   gamma = L M/theta,
// weights 0 at first. Paper: l_i^2 = a_i, and L is the bound on a_i. Reference: l_i is the loss,
// and L = 1.5 times the largest l_i^2 (before any feedback, p is uniform). The reference takes that
// from the losses of all clients before the first round; here the losses of the participants so far
// stand for them, unless L is given: kFirstRound is kRunning.
//
// Cost a round: O(K log M), and O(rows) when L grows; memory: two numbers a client drawn so far and
// M/8 bytes. observe() throws InvalidArgument also for a loss whose square is not finite.
std::unique_ptr<ClientSampler> make_vrb_sampler(const LearningOptions& options, int64_t clients,
                                                int64_t per_round);

// Avare (El Hanchi and Stephens 2020): p in round t minimises sum_i h_i^2/p_i over the
// distributions with p_i >= epsilon_t (eq. 10), h_i = sqrt(a_i) of the client's last participation
// and 0 before it. By Lemma 1, p_i = max(epsilon_t, h_i/lambda), and uniform while all h are 0;
//   epsilon_t = 1/(C^(1 - delta/3) (C + K (t - 1))^(delta/3))   (eq. 20).
//
// t counts the rounds that teach, of K draws each: a draw of another number throws InvalidArgument.
// Known weakness: the regret bound needs steps that decrease. Cost
// a round: O((K + crossings) log M), crossings being the clients that reach or leave the floor
// epsilon_t, mostly a few; memory: about 250 bytes a client drawn so far and M/8 bytes.
std::unique_ptr<ClientSampler> make_avare_sampler(const LearningOptions& options, int64_t clients,
                                                  int64_t per_round);

}  // namespace hanse
