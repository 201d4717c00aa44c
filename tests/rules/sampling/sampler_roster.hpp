// The samplers that learn from draws or not, and rounds to run them through.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

struct SamplerCase {
  std::string name;
  bool replacement;
  std::function<std::unique_ptr<ClientSampler>(int64_t clients, int64_t per_round)> make;
};

// uniform, full (whatever per_round), and weighted, optimal, osmd, adaptive-osmd and osmd-doubling
// with and without replacement. Weighted has shares 1, 2, 3, 4, 1, 2, ...
const std::vector<SamplerCase>& sampler_roster();

// a_m of all clients in a round [M]: distinct, over two orders of magnitude.
std::vector<double> round_gradients(int64_t clients, int64_t round);

// Draws n, or per_round() when that is negative, as a run would, told the round's gradients first
// where the sampler needs them.
Draw draw_round(ClientSampler& sampler, int64_t round, int64_t n = -1);
// The same, and the sampler learns from it.
Draw play_round(ClientSampler& sampler, int64_t round, int64_t n = -1);

// probability() of all clients [M].
std::vector<double> probabilities_of(const ClientSampler& sampler);

void expect_same(const Draw& a, const Draw& b);

}  // namespace hanse
