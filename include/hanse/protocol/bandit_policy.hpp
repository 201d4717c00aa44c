// The rule by which a bandit's clients learn, made of its setup.
#pragma once

#include <memory>
#include <span>

#include "hanse/protocol/bandit_setup.hpp"
#include "hanse/rules/bandit/policy.hpp"

namespace hanse {

// d: parameters of the network; without a network, numbers of a point.
int64_t dimension_of(const BanditSetup& setup);

// Numbers of a client's statistics.
int64_t row_width_of(const BanditSetup& setup);

// Networks that are fitted: none, one, or one a client.
int64_t networks_of(const BanditSetup& setup);

// `w0` [networks, d]: where the networks start the second phase. REQUIRES: `setup` outlives the
// policy of a network.
std::unique_ptr<BanditPolicy> make_policy(const BanditSetup& setup, std::span<const double> w0);

}  // namespace hanse
