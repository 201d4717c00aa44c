#include "partition/partition_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

// By the data's own clients if there are any, else iid.
Partition partition_auto(const Dataset& dataset, const FederationOptions& options, uint64_t seed) {
  const auto partition = dataset.groups.empty() ? partition_iid : partition_by_column;
  return partition(dataset, options, seed);
}

struct PartitionKind : KindRow<FederationOptions> {
  Partition (*partition)(const Dataset&, const FederationOptions&, uint64_t seed);
};

using Options = FederationOptions;
const auto key = keys_of<Options>("federation");
const Keys<Options> kMinSamples =
    key("min-samples", &Options::min_samples, at_least(1), "samples of the smallest client");

Keys<Options> labels_key(const std::string& help) {
  return key("labels-per-client", &Options::labels_per_client, at_least(1), help);
}

const std::vector<PartitionKind> kPartitions = {
    {{"auto", "by-column where the data have clients of their own, else iid"}, partition_auto},
    {{"iid", "equal sizes, at random"}, partition_iid},
    {{"dirichlet",
      "label shares of each class over clients from Dir(alpha)",
      {key("alpha", &Options::alpha, above(0),
           "concentration; small: few classes a client, large: all alike"),
       kMinSamples}},
     partition_dirichlet},
    {{"shards", "samples sorted by label, some shards a client", labels_key("shards a client")},
     partition_shards},
    {{"sizes",
      "sizes drawn from a list with probabilities",
      {key("sizes", &Options::sizes, at_least(1), "possible sizes of a client"),
       key("size-probabilities", &Options::size_probabilities, between(0, 1),
           "probability of each size")},
      check_sizes},
     partition_sizes},
    {{"power-law",
      "sizes from a Pareto density",
      {key("power", &Options::power, above(1),
           "exponent of the density of client sizes; close to 1: most unequal"),
       kMinSamples}},
     partition_power_law},
    {{"by-label", "one class or group of classes a client", labels_key("classes a group")},
     partition_by_label},
    {{"labels",
      "some labels a client, a label's samples shared evenly among those that have it (Li et al. "
      "2022)",
      labels_key("labels a client")},
     partition_labels},
    {{"class-shares",
      "equal parts of every class, of which each client keeps a share (Kesanapalli and Bharath "
      "2021)",
      key("share", &Options::share, above_to(0, 1),
          "largest share that a client keeps of its part of a class")},
     partition_class_shares},
    {{"similarity",
      "a share at random, the rest sorted by label and cut evenly (Karimireddy et al. 2020)",
      key("similarity", &Options::similarity, between(0, 1),
          "share of the samples that is given at random; 1: iid, 0: sorted by label")},
     partition_similarity},
    {{"by-column", "the data's own clients: client column, file, role"}, partition_by_column},
};

void check_clients(const Dataset& dataset, const FederationOptions& options) {
  if (options.clients < 1) {
    throw InvalidArgument(fmt::format("{} clients", options.clients), "federation.clients",
                          "at least 1");
  }
  if (options.clients > dataset.size()) {
    throw InvalidArgument(
        fmt::format("more clients ({}) than samples ({})", options.clients, dataset.size()),
        "federation.clients", "every client needs a sample");
  }
}

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

bool takes_own_clients(const Dataset& dataset, const FederationOptions& options) {
  const auto kind = find_kind(kPartitions, "federation.partition", options.partition).partition;
  return kind == partition_by_column || (kind == partition_auto && !dataset.groups.empty());
}

Partition partition_samples(const Dataset& dataset, const FederationOptions& options,
                            uint64_t seed) {
  const PartitionKind& kind = find_kind(kPartitions, "federation.partition", options.partition);
  if (!takes_own_clients(dataset, options)) check_clients(dataset, options);
  return kind.partition(dataset, options, seed);
}

std::vector<KindRow<FederationOptions>> partition_kinds() {
  return {kPartitions.begin(), kPartitions.end()};
}

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
