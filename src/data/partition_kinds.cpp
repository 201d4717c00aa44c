#include "partition_kinds.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

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
      "of equal parts of every class, shares of other sizes (Kesanapalli and Bharath 2021)",
      key("share", &Options::share, above_to(0, 1),
          "largest share that a client keeps of its part of a class")},
     partition_class_shares},
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

}  // namespace hanse
