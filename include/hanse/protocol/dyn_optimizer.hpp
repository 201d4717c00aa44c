// The server of FedDyn (Acar et al. 2021, Algorithm 1).
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {

// With u the mean of the participants' updates x_i - theta and s their share of all clients, which
// observe() is told: h <- h - s u and theta <- theta + lr u - h. This is the paper's, whose h is
// alpha times ours: alpha has no part in the server's step. State: a row.
std::unique_ptr<ServerOptimizer> make_dyn_optimizer(int64_t n_params);

}  // namespace hanse
