// FedAvg (McMahan et al. 2017): every client counts by its samples, or all count the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// weights = "samples": q_i = lambda_i; "uniform": q_i = 1/M. REQUIRES: clients >= 1.
// Cost a round: O(participants).
std::unique_ptr<Aggregator> make_fedavg(const std::string& weights, Estimator estimator,
                                        int64_t clients);

}  // namespace hanse
