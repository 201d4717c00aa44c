// The server of FedDyn (Acar et al. 2021, Algorithm 1).
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {

// u is the mean of the participants' updates x_i - theta, s their share of all clients, which
// observe() gets: h <- h - s u and theta <- theta + lr u - h. The paper's h is ours / alpha: alpha
// has no part in the server's step. State: a row.
std::unique_ptr<ServerOptimizer> make_dyn_optimizer(int64_t n_params);

}  // namespace hanse
