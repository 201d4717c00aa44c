// The random streams of partitions.
#pragma once

#include <cstdint>

#include "hanse/base/random.hpp"

namespace hanse {

// What a stream of Purpose::kPartition is for; stands in the stream's `round`. Numbers are part of
// the results: never reuse or renumber one.
enum class PartitionStream : uint64_t {
  kOrder = 0,        // order of all samples
  kSizes = 1,        // sizes: size of a client
  kClients = 2,      // power-law: order of the clients
  kProportions = 3,  // dirichlet: attempt * classes + class
  kRepair = 4,       // dirichlet: samples moved to too small clients
  kShards = 5,       // shards: order of the shards
  kHeldOut = 6,      // who is held out of training
};

inline RandomStream partition_stream(uint64_t seed, PartitionStream purpose, uint64_t client = 0) {
  return RandomStream(seed, Purpose::kPartition, static_cast<uint64_t>(purpose), client);
}

}  // namespace hanse
