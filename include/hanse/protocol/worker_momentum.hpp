// Momentum of what clients send (Karimireddy, He and Jaggi 2021; ByzFL's clients).
#pragma once

#include <memory>

#include "hanse/model/layout.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

// m <- beta m + (1 - beta) u, from m = 0 at a client's first participation; the client sends m in
// the place of its update u, as buffers stay. State: a float a trained parameter of each client.
// Null for beta = 0. REQUIRES: 0 <= beta < 1. Cost: a pass over the update.
std::unique_ptr<UpdateStage> make_worker_momentum(double beta, const ParameterLayout& layout);

}  // namespace hanse
