// Samplers without a learning rule: uniform, poisson, cyclic, weighted, full, lipschitz, the oracle
// optimal, and draws by an expression of the user's.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "hanse/base/cipher.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// The words of the present round's draw, where a secret decides and no stream of a seed.
using SecretWords = std::function<CipherStream()>;

// K of the available clients without replacement, every subset with the same probability;
// w_i = available/K. Cost a round: O(K log M) (Floyd's algorithm; then a shuffle for the order).
std::unique_ptr<ClientSampler> make_uniform_sampler(int64_t clients, int64_t per_round);
// The same by secret words; participants come in ascending order.
std::unique_ptr<ClientSampler> make_secret_uniform_sampler(int64_t clients, int64_t per_round,
                                                           SecretWords words);

// K draws with replacement, every client with the same probability; w_i = M N_i/K. Cost: O(M) once,
// then O(K log M) a round.
std::unique_ptr<ClientSampler> make_repeating_sampler(int64_t clients, int64_t per_round);

// Every available client in every round; w_i = 1. Draws of fewer throw InvalidArgument. Cost a
// round: O(M).
std::unique_ptr<ClientSampler> make_full_sampler(int64_t clients);

// Each available client on its own, with probability q = poisson_threshold(expected, clients) /
// 2^53: it takes part iff below(2^53) of stream (seed, kPoisson, round, client) is below that
// threshold. w_i = 1/q. Participants come in ascending order, and there may be none. per_round() is
// the number that no draw exceeds but with probability 2^-60, when draw() throws Error; draws of
// another n throw InvalidArgument. Cost a round: O(M) streams, some 30 ns each.
std::unique_ptr<ClientSampler> make_poisson_sampler(int64_t clients, int64_t expected,
                                                    uint64_t seed);
// The same by secret words, one for each client, of which the high bits are its number.
std::unique_ptr<ClientSampler> make_secret_poisson_sampler(int64_t clients, int64_t expected,
                                                           SecretWords words);

// The clients in one random order, that of stream (seed, kPoisson, 0), again and again: round t has
// those at places (t - 1) K to t K - 1, modulo M, who are available; w_i = M/K. From one round of a
// client to its next are floor(M/K) at least. Draws of another n throw InvalidArgument. Memory:
// O(M). Cost a round: O(K).
std::unique_ptr<ClientSampler> make_cyclic_sampler(int64_t clients, int64_t per_round,
                                                   uint64_t seed);

// K draws, client i with probability proportional to shares[i] >= 0 ("weighted": its samples;
// "lipschitz": lambda_i L_i, Zhao and Zhang 2015, Needell et al. 2016). Cost: O(M) once, then
// O(K log M) a round. Throws InvalidArgument when no share is positive.
std::unique_ptr<ClientSampler> make_weighted_sampler(std::span<const double> shares,
                                                     int64_t per_round, bool replacement = true);

// K draws with p_i proportional to sqrt(a_i), the minimiser of sum a_i/p_i, from the a_i of all
// clients in every round: what a sampler could reach at best. Uniform when all a_i are 0.
// Cost a round: O(M), and the a_i of all clients.
std::unique_ptr<ClientSampler> make_optimal_sampler(int64_t clients, int64_t per_round,
                                                    bool replacement = true);

// A client's probability is proportional to the formula's value (rules/formula/formula.hpp); the
// draw's weights make sums unbiased, as those of all samplers by probabilities. Names: n, its
// training samples; lambda, its share of all samples; a and F, what it reported when it last took
// part (Feedback), and before that the mean over the clients that have, or 1 when nobody has; age,
// the rounds since then, or since the start; round, from 1.
// `samples` [M]. Throws InvalidArgument for a formula that cannot be parsed; the draws do when a
// value is negative or not finite, or all are 0.
// Cost a round: O(M) for each operation. Memory and state: 3 M numbers.
std::unique_ptr<ClientSampler> make_formula_sampler(const std::string& formula,
                                                    std::span<const double> samples,
                                                    int64_t per_round, bool replacement);

}  // namespace hanse
