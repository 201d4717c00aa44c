// States that go to other ranks.
#pragma once

#include "hanse/base/state.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Brings rank 0's state to all ranks. Collective. Cost: a broadcast, and two for each array.
void bcast_state(Communicator& comm, State& state);

}  // namespace hanse
