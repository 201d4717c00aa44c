// Who is to blame where what a rule makes of a round's updates is not finite.
#pragma once

#include <cstdint>
#include <span>

#include "federated/known_round.hpp"
#include "federated/server.hpp"

namespace hanse {

inline constexpr const char* kSmallerSteps = "a smaller client.lr or client.clip may help";

bool all_finite(std::span<const double> values);

// An attacker of the round; without one Divergence::kNobody.
int64_t blamed(const RoundRoles& roles);
// Who has sent the row at this position; kNobody: the server has made it, or keeps it.
int64_t sender_of(int64_t position, const KnownRound& known);

// What the server's rule makes of what it is told. Throws Divergence where that is not finite, or
// makes weights that are not.
Mix mix_of(Server& server, const Weighable& told, const RoundRoles& roles, int64_t round);

}  // namespace hanse
