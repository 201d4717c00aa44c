// What the kinds of partition share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/data/partition.hpp"

namespace hanse {

// 0, 1, ..., n-1 in random order.
std::vector<int64_t> shuffled_samples(int64_t n, uint64_t seed);

// Client c gets the next sizes[c] samples of `order`; what is left over belongs to nobody.
Partition from_sizes(std::vector<int64_t> order, std::span<const int64_t> sizes);

// Sample i belongs to client owners[i]; a client's samples stand in ascending order.
Partition from_owners(std::span<const int64_t> owners, int64_t clients);

// Throws InvalidArgument for regression data.
void require_labels(const Dataset& dataset, const FederationOptions& options);
// Throws InvalidArgument when the samples do not suffice for federation.min-samples everywhere.
void require_min_samples(const Dataset& dataset, const FederationOptions& options);

// Sample indices by label: class k's are order[bounds[k] .. bounds[k+1]).
struct ClassOrder {
  std::vector<int64_t> order;
  std::vector<int64_t> bounds;  // [classes + 1]

  std::span<const int64_t> samples_of(int64_t label) const {
    const auto k = static_cast<std::size_t>(label);
    return {order.data() + bounds[k], order.data() + bounds[k + 1]};
  }
};
// Random order inside a class.
ClassOrder order_by_class(const Dataset& dataset, uint64_t seed);

}  // namespace hanse
