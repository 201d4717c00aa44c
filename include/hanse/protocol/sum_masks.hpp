// Masks between ranks: what a rank hands to the sum of updates tells nothing alone.
//
// Each pair of neighbours shares a key that no other rank knows (X25519). From it both draw the
// same 64-bit words, anew in each round; one adds them to its part of the sum, modulo 2^64, and the
// other subtracts them, so that the sum of all parts is what it was, to the last bit (Bonawitz et
// al. 2017, without dropouts: a rank that is lost ends the run). A rank's neighbours are those 1,
// 2, 4,
// ... ranks before and behind it in a ring (a sparse graph of masks: Bell et al. 2020): who sees
// all messages still needs the help of all of a rank's neighbours to see its part.
#pragma once

#include <memory>

#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/round_part.hpp"

namespace hanse {

// REQUIRES: exact sums; `comm` outlives it. Collective. Cost a round: 2 log2(ranks) words a
// parameter, about 3 ns each; no message.
std::unique_ptr<RoundPart> make_sum_masks(Communicator& comm);

}  // namespace hanse
