// The kinds of partition, one function each; data/partitions.md defines them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

Partition partition_dirichlet(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed);
Partition partition_shards(const Dataset& dataset, const FederationOptions& options, uint64_t seed);
Partition partition_by_label(const Dataset& dataset, const FederationOptions& options,
                             uint64_t seed);
Partition partition_labels(const Dataset& dataset, const FederationOptions& options, uint64_t seed);
Partition partition_class_shares(const Dataset& dataset, const FederationOptions& options,
                                 uint64_t seed);
Partition partition_similarity(const Dataset& dataset, const FederationOptions& options,
                               uint64_t seed);

Partition partition_iid(const Dataset& dataset, const FederationOptions& options, uint64_t seed);
Partition partition_sizes(const Dataset& dataset, const FederationOptions& options, uint64_t seed);
Partition partition_power_law(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed);
Partition partition_by_column(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed);

// Does the partition give each of the data's own clients its samples? Throws InvalidArgument for an
// unknown name.
bool takes_own_clients(const Dataset& dataset, const FederationOptions& options);

// Are there as many sizes as probabilities, whose sum is 1? Throws InvalidArgument.
void check_sizes(const FederationOptions& options);

// ---- shared parts ----

// The purpose of a stream of Purpose::kPartition, as its `round`. Numbers are part of the results:
// never reuse or renumber one.
enum class PartitionStream : uint64_t {
  kOrder = 0,        // order of all samples
  kSizes = 1,        // sizes: size of a client
  kClients = 2,      // power-law: order of the clients
  kProportions = 3,  // dirichlet: attempt * classes + class
  kRepair = 4,       // dirichlet: samples moved to too small clients
  kShards = 5,       // shards: order of the shards
  kHeldOut = 6,      // which clients are held out of training
  kLabels = 7,       // labels: a client's
  kValidationClients = 8,
  kShares = 9,  // class-shares: a client's
};

inline RandomStream partition_stream(uint64_t seed, PartitionStream purpose, uint64_t client = 0) {
  return RandomStream(seed, Purpose::kPartition, static_cast<uint64_t>(purpose), client);
}

// 0, 1, ..., n-1 in random order.
std::vector<int64_t> shuffled_samples(int64_t n, uint64_t seed);

// Client c gets the next sizes[c] samples of `order`; the rest belongs to nobody.
Partition from_sizes(std::vector<int64_t> order, std::span<const int64_t> sizes);

// Sample i belongs to client owners[i]; a client's samples stand in ascending order.
Partition from_owners(std::span<const int64_t> owners, int64_t clients);

// Throws InvalidArgument when there are too few samples for federation.min-samples everywhere.
void require_min_samples(const Dataset& dataset, const FederationOptions& options);

}  // namespace hanse
