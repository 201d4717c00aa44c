// Samplers that prefer clients whose losses are large: oort, which also knows how long they take,
// and power-of-choice. Their draws favour clients, and no weight undoes that: a draw of n has the
// weight available/n for each participant, as if all were as likely.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "hanse/rules/sampling/options.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// Oort (Lai, Zhu, Madhyastha and Chowdhury 2021). B_i are the samples that client i trained when it
// last took part, in round L_i, each as often as it was; R counts the rounds in which somebody took
// part, from 1; t_i is the last duration that is known of the client. A client that took part has
//   U_i = |B_i| sqrt(1/|B_i| sum_{k in B_i} loss_k^2)
//   v_i = (min(U_i, U_q) - u)/max(max U - u, 1e-4) + sqrt(0.1 ln R/L_i),  u = 0.999 min U
//   v_i <- v_i (T/t_i)^penalty  where t_i > T
// with U_q the `clip_quantile` of these U_i, and T the `pacer`-th percentile of
// all known durations. The share of draws that explore falls before every round: eps <- max(decay
// eps, exploration_min), from `exploration`. floor(eps n) of n draws are of clients that never took
// part, with probabilities proportional to their samples (times the same penalty), among the
// `window` times as many for which this is largest; the others are of clients that took part,
// proportional to v_i, among those with v_i >= c v_(k), the k-th largest where k of them are drawn.
// Where one kind has too few clients, the other fills the draw. Both are without replacement.
//
// Pacer: every W = `pacer_every` rounds, from R = 2 W on, U1 and U0 are the sums over the last W
// rounds and the W before of the mean U_i of participants that were not explored. The percentile
// grows by `pacer_step` where |U1 - U0| <= 0.1 U0, up to 100, beyond which nobody is slow; it falls
// by as much where |U1 - U0| >= 5 U0, down to `pacer_step`.
//
// Variant::kPaper has c = 0.95, kReference the authors' c = 0.05 of the (k+1)-th and a pool that
// ends only behind more than 10 k clients. What both share is the authors' program (FedScale's
// oort.py), which differs from the paper: the paper's pacer moves a duration and not a percentile,
// and clips without normalising. The paper's constants 0.95 (cut and clip) and 0.2 are cited from
// memory. The authors' program takes the losses of the last batch alone, and where all clients are
// known it draws fewer than asked for.
//
// `samples` [M] are the clients'. Without durations nobody is slow. probability() is that of one of
// the n draws, picked at random, when it is the first of its kind. impose() takes any clients that
// are there, so that traces may be made by hand. Cost of a round: O(M log M); state: 3 M numbers.
// Throws InvalidArgument for options outside their ranges.
std::unique_ptr<ClientSampler> make_oort_sampler(const OortOptions& options, Variant variant,
                                                 std::span<const double> samples,
                                                 int64_t per_round);

// Power-of-choice, pi_pow-d (Cho, Wang and Joshi 2022): d candidates are drawn without replacement,
// proportional to their samples, and the n of them with the largest F_i take part, the smaller
// number first of equals. d is `candidates`, or 2 n where that is 0; n at least, and as many as are
// there at most. With d = n the participants are those of the weighted sampler.
// probability() is that of the first candidate. A draw that was told no candidates throws Error.
// Cost of a round: O(M + d log M), and the losses of d clients. Throws InvalidArgument where 0 < d
// < per_round.
std::unique_ptr<ClientSampler> make_power_of_choice_sampler(std::span<const double> samples,
                                                            int64_t per_round, int64_t candidates);

}  // namespace hanse
