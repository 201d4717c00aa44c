// Samplers without memory: uniform, weighted, full.
#pragma once

#include <memory>
#include <span>

#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// K of M clients without replacement, every subset with the same probability; w_i = M/K.
// Cost a round: O(K), whatever M (Floyd's algorithm; then a shuffle for the order).
std::unique_ptr<ClientSampler> make_uniform_sampler(int64_t clients, int64_t per_round);

// K draws with replacement, client i with probability lambda_i (the share of its samples);
// w_i = N_i / (K lambda_i), N_i the times it was drawn. Cost a round: O(K log M).
std::unique_ptr<ClientSampler> make_weighted_sampler(std::span<const double> lambda,
                                                     int64_t per_round);

// Every client in every round; w_i = 1. Cost a round: O(M).
std::unique_ptr<ClientSampler> make_full_sampler(int64_t clients);

}  // namespace hanse
