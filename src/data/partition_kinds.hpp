// The kinds of partition, one function each; data/README.md defines them.
#pragma once

#include <cstdint>

#include "hanse/data/partition.hpp"

namespace hanse {

Partition partition_dirichlet(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed);
Partition partition_shards(const Dataset& dataset, const FederationOptions& options, uint64_t seed);
Partition partition_by_label(const Dataset& dataset, const FederationOptions& options,
                             uint64_t seed);

Partition partition_iid(const Dataset& dataset, const FederationOptions& options, uint64_t seed);
Partition partition_sizes(const Dataset& dataset, const FederationOptions& options, uint64_t seed);
Partition partition_power_law(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed);
Partition partition_by_column(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed);

// Are there as many sizes as probabilities, whose sum is 1? Throws InvalidArgument.
void check_sizes(const FederationOptions& options);

}  // namespace hanse
