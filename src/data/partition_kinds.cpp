#include "partition_kinds.hpp"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/data/partition_names.hpp"

namespace hanse {

namespace {

// By the data's own clients where there are such, else alike.
Partition partition_auto(const Dataset& dataset, const FederationOptions& options, uint64_t seed) {
  const auto partition = dataset.groups.empty() ? partition_iid : partition_by_column;
  return partition(dataset, options, seed);
}

struct Kind {
  PartitionKindInfo info;
  Partition (*partition)(const Dataset&, const FederationOptions&, uint64_t seed);
};

const std::array<Kind, 8> kKinds = {{
    {{"auto", "by-column where the data have clients of their own, else iid"}, partition_auto},
    {{"iid", "equal sizes, at random"}, partition_iid},
    {{"dirichlet", "label shares of each class over clients from Dir(alpha)"}, partition_dirichlet},
    {{"shards", "samples sorted by label, some shards a client"}, partition_shards},
    {{"sizes", "sizes drawn from a list with probabilities"}, partition_sizes},
    {{"power-law", "sizes from a Pareto density"}, partition_power_law},
    {{"by-label", "one class or group of classes a client"}, partition_by_label},
    {{"by-column", "the data's own clients: client column, file, role"}, partition_by_column},
}};

bool takes_own_clients(const Dataset& dataset, const Kind& kind) {
  return kind.partition == partition_by_column ||
         (kind.partition == partition_auto && !dataset.groups.empty());
}

const Kind& find_kind(const std::string& name) {
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (kind.info.name == name) return kind;
    known.push_back(kind.info.name);
  }
  throw InvalidArgument(
      fmt::format("unknown federation.partition '{}'", name), "federation.partition",
      fmt::format("did you mean '{}'? known: {}", nearest(name, known), join(known, ", ")));
}

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

Partition partition_samples(const Dataset& dataset, const FederationOptions& options,
                            uint64_t seed) {
  const Kind& kind = find_kind(options.partition);
  if (!takes_own_clients(dataset, kind)) check_clients(dataset, options);
  return kind.partition(dataset, options, seed);
}

std::vector<PartitionKindInfo> partition_kinds() {
  std::vector<PartitionKindInfo> infos;
  for (const Kind& kind : kKinds) infos.push_back(kind.info);
  return infos;
}

}  // namespace hanse
