// Partitions that ignore the class labels, and parts that all partitions share.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "partition_kinds.hpp"

namespace hanse {

void check_sizes(const FederationOptions& options) {
  const auto& sizes = options.sizes;
  const auto& p = options.size_probabilities;
  if (sizes.empty() || sizes.size() != p.size()) {
    throw InvalidArgument(fmt::format("{} sizes but {} probabilities", sizes.size(), p.size()),
                          "federation.sizes, federation.size-probabilities",
                          "name one probability a size");
  }
  if (*std::min_element(sizes.begin(), sizes.end()) < 1) {
    throw InvalidArgument("a size is below 1", "federation.sizes", "every client needs a sample");
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  const bool negative = std::any_of(p.begin(), p.end(), [](double x) { return !(x >= 0); });
  if (negative || !(std::abs(sum - 1) <= 1e-9)) {
    throw InvalidArgument(fmt::format("probabilities sum to {}, not 1", sum),
                          "federation.size-probabilities", "none is negative and their sum is 1");
  }
}

namespace {

// Index of the interval of the cumulated probabilities that u in [0, 1) falls into.
std::size_t draw_index(const std::vector<double>& probabilities, double u) {
  double cumulated = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    last = i;
    cumulated += probabilities[i];
    if (u < cumulated) return i;
  }
  return last;  // the sum may be 1 - 1e-9
}

// Relative sizes in ascending order: quantile (i + 1/2) / n of the density x^-power on [1, inf)
// is (1 - (i + 1/2) / n)^(-1 / (power - 1)). The largest is 1, so that none overflows.
std::vector<double> pareto_quantiles(int64_t n, double power) {
  std::vector<double> weights;
  const double largest = std::log(0.5 / static_cast<double>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double tail = (static_cast<double>(n - i) - 0.5) / static_cast<double>(n);
    weights.push_back(std::exp((largest - std::log(tail)) / (power - 1)));
  }
  return weights;
}

// Shares `total` in proportion to ascending weights, at least `least` each: shares below are raised
// to it, and the larger ones share the rest.
std::vector<int64_t> proportional_sizes(const std::vector<double>& weights, int64_t total,
                                        int64_t least) {
  std::vector<double> weight_from(weights);  // sum of weights[i..n)
  for (std::size_t i = weights.size() - 1; i > 0; --i) weight_from[i - 1] += weight_from[i];
  std::vector<int64_t> sizes;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto left = static_cast<int64_t>(weights.size() - i);
    const double share = static_cast<double>(total) * (weights[i] / weight_from[i]);
    sizes.push_back(std::clamp<int64_t>(std::llround(share), least, total / left));
    total -= sizes.back();
  }
  return sizes;
}

}  // namespace

Partition partition_iid(const Dataset& dataset, const FederationOptions& options, uint64_t seed) {
  const int64_t n = dataset.size();
  std::vector<int64_t> sizes;
  for (int64_t c = 0; c < options.clients; ++c) {
    sizes.push_back(n / options.clients + (c < n % options.clients ? 1 : 0));
  }
  return from_sizes(shuffled_samples(n, seed), sizes);
}

Partition partition_sizes(const Dataset& dataset, const FederationOptions& options, uint64_t seed) {
  check_sizes(options);
  std::vector<int64_t> sizes;
  int64_t needed = 0;
  for (int64_t c = 0; c < options.clients; ++c) {
    RandomStream stream = partition_stream(seed, PartitionStream::kSizes, static_cast<uint64_t>(c));
    sizes.push_back(options.sizes[draw_index(options.size_probabilities, stream.uniform())]);
    needed += sizes.back();
  }
  if (needed > dataset.size()) {
    throw InvalidArgument(fmt::format("the drawn sizes of {} clients need {} samples, there are {}",
                                      options.clients, needed, dataset.size()),
                          "federation.sizes", "have fewer clients, smaller sizes or more samples");
  }
  return from_sizes(shuffled_samples(dataset.size(), seed), sizes);
}

Partition partition_power_law(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed) {
  require_min_samples(dataset, options);
  if (!(options.power > 1) || std::isinf(options.power)) {
    throw InvalidArgument(fmt::format("the exponent is {}", options.power), "federation.power",
                          "it is above 1, and finite");
  }
  const auto weights = pareto_quantiles(options.clients, options.power);
  auto sizes = proportional_sizes(weights, dataset.size(), options.min_samples);
  partition_stream(seed, PartitionStream::kClients).shuffle(std::span<int64_t>(sizes));
  return from_sizes(shuffled_samples(dataset.size(), seed), sizes);
}

Partition partition_by_column(const Dataset& dataset, const FederationOptions&, uint64_t) {
  if (dataset.groups.empty()) {
    throw InvalidArgument("partition by-column needs data with a client column",
                          "federation.partition",
                          "set data.client-column, or choose a data.kind with clients");
  }
  return from_owners(dataset.groups, static_cast<int64_t>(dataset.group_names.size()));
}

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
