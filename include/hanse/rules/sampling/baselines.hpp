// The samplers that OSMD is compared with (Zhao et al. 2025, section 7): "mabs", "vrb" and "avare".
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/rules/sampling/osmd.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// Of make_mabs_sampler and make_vrb_sampler.
struct BaselineOptions {
  enum class Variant {
    kPaper,
    kReference,  // as the authors of OSMD ran it
  };
  Variant variant = Variant::kPaper;
  bool replacement = true;
  // Share of the uniform distribution in p: eta of MABS, theta of VRB. In (0, 1]; 1: uniform.
  // kAuto: 0.4, but (M/T)^(1/3), at most 1, for VRB's paper.
  double mixing = kAuto;
  double rate = kAuto;    // MABS: delta >= 0; kAuto: sqrt(eta^4 log M/(T M^5 A)), A as below
  double rate_scale = 1;  // MABS: factor on a in the updates, not on A
  BoundSource bound = BoundSource::kFirstRound;
  double bound_value = 0;  // of BoundSource::kGiven: MABS's A or VRB's L
  int64_t horizon = 0;     // T: rounds; needed where kAuto makes use of it

  static constexpr double kAuto = -1;
};

// MABS (Salehi, Celis and Thiran 2017): with q_i = p_i over the available,
//   p_i = (1 - eta) w_i/sum w + eta/M,   w_i <- w_i exp(delta a_i/(p_i^2 q_i)) for every draw of i,
// weights 1 at first and kept as logarithms.
//
// A in delta: the mean over all clients of a_i^2 (paper, read so that p does not depend on the unit
// of the loss) or of a_i (reference, where it does), by the a_i before the first round.
// BoundSource::kRunning takes the largest a_i seen so far for every a_i; a larger one changes later
// updates alone.
//
// A round in which everyone available takes part teaches nothing. Known weakness: the updates'
// variance, for a_i/p_i^3 is up to (M/eta)^3 a_i. Cost a round: O(K log M), and O(rows) when the
// largest log-weight has grown by 600; memory: two numbers a client drawn so far and M/8 bytes.
// Throws InvalidArgument for a mixing outside (0, 1], no horizon where one is needed, or K above M
// without replacement.
std::unique_ptr<ClientSampler> make_mabs_sampler(const BaselineOptions& options, int64_t clients,
                                                 int64_t per_round);

// VRB (Borsos, Krause and Levy 2018, the algorithm for bandit feedback): with q_i as above,
//   p_i = (1 - theta) sqrt(w_i + gamma)/sum_j sqrt(w_j + gamma) + theta/M,
//   w_i <- w_i + l_i^2/q_i for every draw of i,   gamma = L M/theta,
// weights 0 at first. Paper: l_i^2 = a_i, and L is the bound on a_i. Reference: l_i is the loss,
// and L = 1.5 times the largest l_i^2 (before any feedback, p is uniform). The reference takes that
// from the losses of all clients before the first round; here the losses of the participants so far
// stand for them, unless L is given: kFirstRound is kRunning.
//
// A round in which everyone available takes part teaches nothing. Cost a round: O(K log M), and
// O(rows) when L grows; memory: two numbers a client drawn so far and M/8 bytes. Throws
// InvalidArgument as make_mabs_sampler does; observe() also for a loss whose square is not finite.
std::unique_ptr<ClientSampler> make_vrb_sampler(const BaselineOptions& options, int64_t clients,
                                                int64_t per_round);

struct AvareOptions {
  bool replacement = true;
  // C of eq. 20, at least M: the larger, the longer p stays close to uniform. kAuto: M.
  double c = kAuto;
  // In (0, 1]: successive models differ by O(t^-delta). 1 is for steps of SGD that fall with 1/t.
  double delta = 1;

  static constexpr double kAuto = -1;
};

// Avare (El Hanchi and Stephens 2020): p in round t minimises sum_i h_i^2/p_i over the
// distributions with p_i >= epsilon_t (eq. 10), h_i = sqrt(a_i) of the client's last participation
// and 0 before it. By Lemma 1, p_i = max(epsilon_t, h_i/lambda), and uniform while all h are 0;
//   epsilon_t = 1/(C^(1 - delta/3) (C + K (t - 1))^(delta/3))   (eq. 20).
//
// A round in which everyone available takes part teaches nothing, and t does not count it. Known
// weakness: the regret bound needs steps that decrease. Cost a round: O((K + crossings) log M),
// crossings being the clients that reach or leave the floor epsilon_t, mostly a few; memory: about
// 250 bytes a client drawn so far and M/8 bytes. Throws InvalidArgument for C below M, delta
// outside (0, 1], or K above M without replacement.
std::unique_ptr<ClientSampler> make_avare_sampler(const AvareOptions& options, int64_t clients,
                                                  int64_t per_round);

// Throws InvalidArgument for a mixing outside (0, 1] or a rate below 0 other than kAuto, a given
// bound that is not above 0, no horizon where `needs_horizon`, or an impossible number per round.
void check_baseline(const BaselineOptions& options, int64_t clients, int64_t per_round,
                    bool needs_horizon);

}  // namespace hanse
