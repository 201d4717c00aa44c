// FedNova (Wang et al. 2020): clients that make more steps do not count more for it.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/client/options.hpp"

namespace hanse {

// tau_i, the sum of the weights with which the gradients of a round of a client with `samples`
// training samples stand in its update over -lr: its steps, and with momentum rho their geometric
// weights, sum_t (1 - rho^t) / (1 - rho), t = 1, ..., steps. A step whose size the schedule moves
// counts by its share of lr. REQUIRES: client.optimizer = sgd with fresh moments. Cost: O(steps).
double effective_steps(const ClientOptions& options, int64_t round, int64_t samples);

// Coefficients c_i of the updates: c_i <- c_i / tau_i sum_j c_j tau_j.
void normalize_by_steps(std::span<const double> taus, std::span<double> coefficients);

}  // namespace hanse
