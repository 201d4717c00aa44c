// Clients that are evaluated and never trained on.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/data/client_ranges.hpp"

namespace hanse {

// Moves `wanted` of the clients, a share below 1 (rounded) or a whole number, behind the others, a
// uniform choice of the seed; the last `held_out` of them are there already. Both parts keep their
// order; `held_out` grows. Throws InvalidArgument when nobody would be left.
void hold_out(std::vector<ClientRanges>& clients, int64_t& held_out, double wanted, uint64_t seed);

}  // namespace hanse
