// Which clients are there to take part.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hanse {

// Clients that came or went since the round of the last call; in the first, since everyone was
// there. What is available in a round depends on the seed and the round alone. REQUIRES: rounds
// that grow. Empty: everyone is always there.
using Availability = std::function<std::vector<int64_t>(int64_t round, uint64_t seed)>;

// Each client is there with this probability, independently of others and of other rounds.
// Cost a round: O(M).
Availability make_independent_availability(int64_t clients, double probability);

// Clients are cut into `blocks` contiguous blocks; one of them is there at a time, in turns of
// `rounds` rounds, as time zones are. Cost: the clients that change.
Availability make_block_availability(int64_t clients, int64_t blocks, int64_t rounds);

// A client is there from round `first` to `last`, both included.
struct Presence {
  int64_t client = 0;
  int64_t first = 1;
  int64_t last = 1;
};

// Clients that `presences` names are there in their rounds alone, all others always. Presences of
// one client may overlap. Cost: O(n log n) once, then the clients that change.
Availability make_scheduled_availability(std::span<const Presence> presences);

}  // namespace hanse
