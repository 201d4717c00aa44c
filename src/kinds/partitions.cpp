#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/partition_names.hpp"
#include "keyed_rows.hpp"

namespace hanse {

namespace {

void min_samples_key(KindKeys& keys, Job& job) {
  keys.add("federation.min-samples", job.federation.min_samples, at_least(1),
           "samples of the smallest client");
}

void dirichlet_keys(KindKeys& keys, Job& job) {
  keys.add("federation.alpha", job.federation.alpha, above(0),
           "concentration; small: few classes a client, large: all alike");
  min_samples_key(keys, job);
}

void shards_keys(KindKeys& keys, Job& job) {
  keys.add("federation.labels-per-client", job.federation.labels_per_client, at_least(1),
           "shards a client");
}

void by_label_keys(KindKeys& keys, Job& job) {
  keys.add("federation.labels-per-client", job.federation.labels_per_client, at_least(1),
           "classes a group");
}

void sizes_keys(KindKeys& keys, Job& job) {
  keys.add("federation.sizes", job.federation.sizes, at_least(1), "possible sizes of a client");
  keys.add("federation.size-probabilities", job.federation.size_probabilities, between(0, 1),
           "probability of each size");
}

void power_law_keys(KindKeys& keys, Job& job) {
  keys.add("federation.power", job.federation.power, above(1),
           "exponent of the density of client sizes; close to 1: most unequal");
  min_samples_key(keys, job);
}

void check_sizes(const Job& job) {
  const FederationOptions& o = job.federation;
  if (o.sizes.empty() || o.sizes.size() != o.size_probabilities.size()) {
    throw InvalidArgument(
        fmt::format("{} sizes but {} probabilities", o.sizes.size(), o.size_probabilities.size()),
        "federation.sizes, federation.size-probabilities", "name one probability a size");
  }
  const double sum = std::accumulate(o.size_probabilities.begin(), o.size_probabilities.end(), 0.0);
  if (std::abs(sum - 1) > 1e-9) {
    throw InvalidArgument(fmt::format("probabilities sum to {}, not 1", sum),
                          "federation.size-probabilities");
  }
}

constexpr KindInJob kKinds[] = {{"dirichlet", dirichlet_keys},
                                {"shards", shards_keys},
                                {"sizes", sizes_keys, check_sizes},
                                {"power-law", power_law_keys},
                                {"by-label", by_label_keys}};

}  // namespace

KindFamily partition_family() {
  return {.name = "partitions",
          .key = "federation.partition",
          .help = "how samples are given to clients",
          .choice = [](Job& job) -> std::string& { return job.federation.partition; },
          .rows = keyed_rows(partition_kinds(), kKinds)};
}

}  // namespace hanse
