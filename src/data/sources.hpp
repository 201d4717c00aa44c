// From the options to the source that they name.
#pragma once

#include <cstdint>
#include <memory>

#include "client_source.hpp"
#include "hanse/data/dataset.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

// Throws InvalidArgument when the options ask data with clients of their own for what is done to
// others alone: a partition, classes to keep, standardizing.
void check_own_clients(const DataOptions& data, const FederationOptions& federation);

// The source that the options name, its partition included. Throws InvalidArgument.
std::unique_ptr<ClientSource> make_client_source(const DataOptions& data,
                                                 const FederationOptions& federation,
                                                 uint64_t seed);

}  // namespace hanse
