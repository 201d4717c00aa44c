#include "partition_tools.hpp"

#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

std::vector<int64_t> shuffled_samples(int64_t n, uint64_t seed) {
  std::vector<int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  partition_stream(seed, PartitionStream::kOrder).shuffle(std::span<int64_t>(order));
  return order;
}

Partition from_sizes(std::vector<int64_t> order, std::span<const int64_t> sizes) {
  Partition partition{.order = std::move(order), .offsets = {0}};
  for (const int64_t size : sizes) partition.offsets.push_back(partition.offsets.back() + size);
  partition.order.resize(static_cast<std::size_t>(partition.offsets.back()));
  partition.train_end.assign(partition.offsets.begin() + 1, partition.offsets.end());
  return partition;
}

Partition from_owners(std::span<const int64_t> owners, int64_t clients) {
  std::vector<int64_t> sizes(static_cast<std::size_t>(clients));
  for (const int64_t owner : owners) ++sizes[static_cast<std::size_t>(owner)];
  Partition partition = from_sizes(std::vector<int64_t>(owners.size()), sizes);
  std::vector<int64_t> next(partition.offsets.begin(), partition.offsets.end() - 1);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const int64_t place = next[static_cast<std::size_t>(owners[i])]++;
    partition.order[static_cast<std::size_t>(place)] = static_cast<int64_t>(i);
  }
  return partition;
}

void require_min_samples(const Dataset& dataset, const FederationOptions& options) {
  const int64_t most = dataset.size() / options.clients;
  if (options.min_samples >= 1 && options.min_samples <= most) return;
  throw InvalidArgument(fmt::format("{} clients cannot have at least {} of {} samples each",
                                    options.clients, options.min_samples, dataset.size()),
                        "federation.min-samples",
                        fmt::format("1 to {} are possible with {} clients", most, options.clients));
}

}  // namespace hanse
