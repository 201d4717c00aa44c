#include "partition_kinds.hpp"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

struct Kind {
  std::string name;
  Partition (*partition)(const Dataset&, const FederationOptions&, uint64_t seed);
};

const std::array<Kind, 7> kKinds = {{
    {"iid", partition_iid},
    {"dirichlet", partition_dirichlet},
    {"shards", partition_shards},
    {"sizes", partition_sizes},
    {"power-law", partition_power_law},
    {"by-label", partition_by_label},
    {"by-column", partition_by_column},
}};

// The data's own clients, where there are such.
std::string resolve(const Dataset& dataset, const std::string& name) {
  if (name != "auto") return name;
  return dataset.groups.empty() ? "iid" : "by-column";
}

const Kind& find_kind(const std::string& name) {
  std::vector<std::string> known = {"auto"};
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
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
  const Kind& kind = find_kind(resolve(dataset, options.partition));
  if (kind.partition != partition_by_column) check_clients(dataset, options);
  return kind.partition(dataset, options, seed);
}

}  // namespace hanse
