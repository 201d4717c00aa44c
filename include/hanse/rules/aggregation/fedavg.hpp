// FedAvg (McMahan et al. 2017): every client counts by its samples, or all count the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

struct FedAvgOptions {
  std::string weights = "samples";       // samples: q_i = lambda_i; uniform: q_i = 1/M
  std::string estimator = "normalized";  // normalized | unbiased
};

// REQUIRES: clients >= 1. Cost a round: O(participants).
std::unique_ptr<Aggregator> make_fedavg(const FedAvgOptions& options, int64_t clients);

}  // namespace hanse
