// Attackers that lie about themselves: samplers and rules hear numbers that are not true.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/attack/options.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// In the rounds of the attack the sampler hears options.feedback times the loss of these clients,
// ascending, and its square times a_i and the squared losses. State: the sampler's.
std::unique_ptr<ClientSampler> forge_feedback(std::unique_ptr<ClientSampler> sampler,
                                              const AttackOptions& options,
                                              std::vector<int64_t> attackers);

// The rule hears that factor times their loss and their rate. State: the rule's.
std::unique_ptr<Aggregator> forge_losses(std::unique_ptr<Aggregator> rule,
                                         const AttackOptions& options,
                                         std::vector<int64_t> attackers);

}  // namespace hanse
