// Partitions that look at the class labels.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "partition/partition_kinds.hpp"

namespace hanse {

namespace {

constexpr int64_t kAttempts = 20;

void require_labels(const Dataset& dataset, const FederationOptions& options) {
  if (!dataset.sample_classes().empty()) return;
  throw InvalidArgument(fmt::format("partition {} needs one class a sample, the data has {}",
                                    options.partition, dataset.label_form().text()),
                        "federation.partition", "use iid, sizes, power-law or by-column");
}

// The samples of each class, [classes] in place of clients; in random order inside a class.
Partition order_by_class(const Dataset& dataset, uint64_t seed) {
  const std::vector<int64_t> order = shuffled_samples(dataset.size(), seed);
  std::vector<int64_t> owners;  // class of the sample at each place of `order`
  for (const int64_t i : order) owners.push_back(dataset.labels[static_cast<std::size_t>(i)]);
  Partition classes = from_owners(owners, dataset.classes);
  for (int64_t& sample : classes.order) sample = order[static_cast<std::size_t>(sample)];
  return classes;
}

// A draw from the symmetric Dirichlet(alpha). Computed from logarithms of gamma variates, with
// Gamma(a) = Gamma(a + 1) U^(1/a): for a small alpha the variates themselves underflow to 0 / 0.
std::vector<double> draw_dirichlet(RandomStream& stream, double alpha, int64_t n) {
  std::vector<double> p;
  for (int64_t i = 0; i < n; ++i) {
    const double gamma = stream.gamma(alpha + 1);
    p.push_back(std::log(gamma) + std::log(1.0 - stream.uniform()) / alpha);
  }
  const double largest = *std::max_element(p.begin(), p.end());
  for (double& value : p) value = std::exp(value - largest);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

// Places where a class of `size` samples is cut, [clients + 1]: floor(size * cumulated p + u). The
// shift u in [0, 1) makes the expected count of every client exact, also when there are fewer
// samples than clients.
std::vector<int64_t> cut_places(const std::vector<double>& p, int64_t size, double u) {
  std::vector<int64_t> places = {0};
  double cumulated = 0;
  for (const double share : p) {
    cumulated += share;
    const double place = std::floor(static_cast<double>(size) * cumulated + u);
    places.push_back(std::min(static_cast<int64_t>(place), size));
  }
  places.back() = size;
  return places;
}

using Cuts = std::vector<std::vector<int64_t>>;  // [classes][clients + 1]

// Draws one attempt.
Cuts draw_cuts(const Partition& classes, const FederationOptions& options, uint64_t seed,
               int64_t attempt) {
  Cuts cuts;
  for (int64_t k = 0; k < classes.clients(); ++k) {
    const auto key = static_cast<uint64_t>(attempt * classes.clients() + k);
    RandomStream stream = partition_stream(seed, PartitionStream::kProportions, key);
    const double u = stream.uniform();
    const auto p = draw_dirichlet(stream, options.alpha, options.clients);
    const auto at = static_cast<std::size_t>(k);
    cuts.push_back(cut_places(p, classes.offsets[at + 1] - classes.offsets[at], u));
  }
  return cuts;
}

int64_t smallest_client(const Cuts& cuts) {
  std::vector<int64_t> sizes(cuts.front().size() - 1);
  for (const auto& places : cuts) {
    for (std::size_t c = 0; c < sizes.size(); ++c) sizes[c] += places[c + 1] - places[c];
  }
  return *std::min_element(sizes.begin(), sizes.end());
}

std::vector<int64_t> owners_of(const Partition& classes, const Cuts& cuts) {
  std::vector<int64_t> owners(classes.order.size());
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    const int64_t* samples = classes.order.data() + classes.offsets[k];
    for (std::size_t c = 0; c + 1 < cuts[k].size(); ++c) {
      for (int64_t place = cuts[k][c]; place < cuts[k][c + 1]; ++place) {
        owners[static_cast<std::size_t>(samples[place])] = static_cast<int64_t>(c);
      }
    }
  }
  return owners;
}

// Gives random samples of the largest client to the clients below the minimum.
// REQUIRES: clients * least <= samples; then the largest always stays at or above the minimum.
Partition move_to_small(std::vector<int64_t> owners, int64_t clients, int64_t least,
                        uint64_t seed) {
  Partition partition = from_owners(owners, clients);
  std::vector<int64_t> sizes;
  std::priority_queue<std::pair<int64_t, int64_t>> largest;  // size, client
  for (int64_t c = 0; c < clients; ++c) {
    const auto at = static_cast<std::size_t>(c);
    sizes.push_back(partition.offsets[at + 1] - partition.offsets[at]);
    largest.emplace(sizes.back(), c);
  }
  RandomStream stream = partition_stream(seed, PartitionStream::kRepair);
  for (int64_t c = 0; c < clients; ++c) {
    for (int64_t size = sizes[static_cast<std::size_t>(c)]; size < least; ++size) {
      const auto [donor_size, donor] = largest.top();
      largest.pop();
      largest.emplace(donor_size - 1, donor);
      int64_t* own = partition.order.data() + partition.offsets[static_cast<std::size_t>(donor)];
      const int64_t given = stream.below(donor_size);
      owners[static_cast<std::size_t>(own[given])] = c;
      own[given] = own[donor_size - 1];
    }
  }
  return from_owners(owners, clients);
}

// Number of class groups, the last of which may be smaller.
int64_t count_groups(const Dataset& dataset, const FederationOptions& options) {
  const int64_t each = options.labels_per_client;
  if (each < 1 || each > dataset.classes) {
    throw InvalidArgument(fmt::format("groups of {} classes", each), "federation.labels-per-client",
                          fmt::format("1 to {} are possible", dataset.classes));
  }
  const int64_t groups = (dataset.classes + each - 1) / each;
  if (options.clients % groups != 0) {
    throw InvalidArgument(fmt::format("{} clients cannot share {} classes in groups of {}",
                                      options.clients, dataset.classes, each),
                          "federation.clients",
                          fmt::format("use {}, {}, {} or another multiple of {}", groups,
                                      2 * groups, 3 * groups, groups));
  }
  return groups;
}

// The owners of each label, [classes]: client c has label c mod classes, and random others.
std::vector<std::vector<int64_t>> draw_labels(int64_t classes, const FederationOptions& options,
                                              uint64_t seed) {
  std::vector<std::vector<int64_t>> owners(static_cast<std::size_t>(classes));
  for (int64_t client = 0; client < options.clients; ++client) {
    const int64_t first = client % classes;
    std::vector<int64_t> others;
    for (int64_t label = 0; label < classes; ++label) {
      if (label != first) others.push_back(label);
    }
    partition_stream(seed, PartitionStream::kLabels, static_cast<uint64_t>(client))
        .shuffle(std::span<int64_t>(others));
    others.resize(static_cast<std::size_t>(options.labels_per_client - 1));
    others.push_back(first);
    for (const int64_t label : others) owners[static_cast<std::size_t>(label)].push_back(client);
  }
  return owners;
}

// Makes the partition of each client's samples, in ascending order. Throws InvalidArgument for a
// client without samples: `what` is wrong, and what may help.
Partition from_clients(std::vector<std::vector<int64_t>>& samples, const std::string& what,
                       const std::string& hint) {
  Partition result{.offsets = {0}};
  for (std::vector<int64_t>& own : samples) {
    if (own.empty()) {
      throw InvalidArgument(fmt::format("client {} {}", result.clients(), what),
                            "federation.clients", hint);
    }
    std::ranges::sort(own);
    result.order.insert(result.order.end(), own.begin(), own.end());
    result.offsets.push_back(std::ssize(result.order));
  }
  result.train_end.assign(result.offsets.begin() + 1, result.offsets.end());
  return result;
}

}  // namespace

Partition partition_dirichlet(const Dataset& dataset, const FederationOptions& options,
                              uint64_t seed) {
  require_labels(dataset, options);
  require_min_samples(dataset, options);
  if (!(options.alpha > 0) || std::isinf(options.alpha)) {
    throw InvalidArgument(fmt::format("alpha is {}", options.alpha), "federation.alpha",
                          "it is above 0, and finite");
  }
  const Partition classes = order_by_class(dataset, seed);
  Cuts cuts;
  for (int64_t attempt = 0; attempt < kAttempts; ++attempt) {
    cuts = draw_cuts(classes, options, seed, attempt);
    if (smallest_client(cuts) >= options.min_samples) break;
  }
  return move_to_small(owners_of(classes, cuts), options.clients, options.min_samples, seed);
}

Partition partition_shards(const Dataset& dataset, const FederationOptions& options,
                           uint64_t seed) {
  require_labels(dataset, options);
  const int64_t each = options.labels_per_client;
  if (each < 1 || each > dataset.size() / options.clients) {
    throw InvalidArgument(fmt::format("{} clients cannot have {} shards of {} samples each",
                                      options.clients, each, dataset.size()),
                          "federation.labels-per-client",
                          fmt::format("1 to {} are possible with {} clients",
                                      dataset.size() / options.clients, options.clients));
  }
  const int64_t n_shards = options.clients * each;
  std::vector<int64_t> shards(static_cast<std::size_t>(n_shards));
  std::iota(shards.begin(), shards.end(), int64_t{0});
  partition_stream(seed, PartitionStream::kShards).shuffle(std::span<int64_t>(shards));
  const std::vector<int64_t> order = order_by_class(dataset, seed).order;
  const auto place = [&](int64_t shard) {  // n / n_shards samples each, the first ones one more
    return shard * (dataset.size() / n_shards) + std::min(shard, dataset.size() % n_shards);
  };
  std::vector<int64_t> owners(order.size());
  for (int64_t i = 0; i < n_shards; ++i) {
    const int64_t shard = shards[static_cast<std::size_t>(i)];
    for (int64_t at = place(shard); at < place(shard + 1); ++at) {
      owners[static_cast<std::size_t>(order[static_cast<std::size_t>(at)])] = i / each;
    }
  }
  return from_owners(owners, options.clients);
}

Partition partition_by_label(const Dataset& dataset, const FederationOptions& options,
                             uint64_t seed) {
  require_labels(dataset, options);
  const int64_t groups = count_groups(dataset, options);
  const int64_t parts = options.clients / groups;  // clients a group
  std::vector<int64_t> owners(dataset.labels.size());
  std::vector<int64_t> group_size(static_cast<std::size_t>(groups));
  for (const int64_t sample : shuffled_samples(dataset.size(), seed)) {
    const auto i = static_cast<std::size_t>(sample);
    const int64_t group = dataset.labels[i] / options.labels_per_client;
    const int64_t turn = group_size[static_cast<std::size_t>(group)]++;
    owners[i] = group + turn % parts * groups;
  }
  const auto smallest = std::min_element(group_size.begin(), group_size.end());
  if (*smallest < parts) {
    throw InvalidArgument(fmt::format("class group {} has {} samples for {} clients",
                                      smallest - group_size.begin(), *smallest, parts),
                          "federation.clients", "have fewer clients or larger groups");
  }
  return from_owners(owners, options.clients);
}

Partition partition_labels(const Dataset& dataset, const FederationOptions& options,
                           uint64_t seed) {
  require_labels(dataset, options);
  if (options.labels_per_client < 1 || options.labels_per_client > dataset.classes) {
    throw InvalidArgument(fmt::format("{} labels a client", options.labels_per_client),
                          "federation.labels-per-client",
                          fmt::format("1 to {} are possible", dataset.classes));
  }
  const auto owners = draw_labels(dataset.classes, options, seed);
  const Partition classes = order_by_class(dataset, seed);
  std::vector<std::vector<int64_t>> samples(static_cast<std::size_t>(options.clients));
  for (std::size_t k = 0; k < owners.size(); ++k) {
    const int64_t size = classes.offsets[k + 1] - classes.offsets[k];
    const int64_t parts = std::ssize(owners[k]);
    for (int64_t i = 0; i < size && parts > 0; ++i) {
      const int64_t owner = owners[k][static_cast<std::size_t>(i % parts)];
      samples[static_cast<std::size_t>(owner)].push_back(
          classes.order[static_cast<std::size_t>(classes.offsets[k] + i)]);
    }
  }
  return from_clients(samples, "has none of the samples of its labels",
                      "have fewer clients, or more labels a client");
}

Partition partition_class_shares(const Dataset& dataset, const FederationOptions& options,
                                 uint64_t seed) {
  require_labels(dataset, options);
  const Partition classes = order_by_class(dataset, seed);
  std::vector<std::vector<int64_t>> samples(static_cast<std::size_t>(options.clients));
  for (int64_t client = 0; client < options.clients; ++client) {
    RandomStream stream =
        partition_stream(seed, PartitionStream::kShares, static_cast<uint64_t>(client));
    for (std::size_t k = 0; k + 1 < classes.offsets.size(); ++k) {
      const int64_t size = classes.offsets[k + 1] - classes.offsets[k];
      const int64_t begin = size * client / options.clients;
      const int64_t part = size * (client + 1) / options.clients - begin;
      const double kept = stream.uniform() * options.share * static_cast<double>(part);
      const auto first = classes.order.begin() + classes.offsets[k] + begin;
      auto& own = samples[static_cast<std::size_t>(client)];
      own.insert(own.end(), first, first + std::llround(kept));
    }
  }
  return from_clients(samples, "keeps no sample", "have fewer clients, or a larger share");
}

// The random order of all samples, of which the first round(similarity n) are cut evenly, and the
// others, sorted by label, too.
Partition partition_similarity(const Dataset& dataset, const FederationOptions& options,
                               uint64_t seed) {
  require_labels(dataset, options);
  std::vector<int64_t> order = shuffled_samples(dataset.size(), seed);
  const int64_t n_iid = std::llround(options.similarity * static_cast<double>(dataset.size()));
  std::stable_sort(order.begin() + n_iid, order.end(), [&](int64_t a, int64_t b) {
    return dataset.labels[static_cast<std::size_t>(a)] <
           dataset.labels[static_cast<std::size_t>(b)];
  });
  std::vector<std::vector<int64_t>> samples(static_cast<std::size_t>(options.clients));
  for (const SampleRange all : {SampleRange{0, n_iid}, {n_iid, dataset.size()}}) {
    for (int64_t client = 0; client < options.clients; ++client) {
      const auto cut = [&](int64_t part) {
        return order.begin() + all.begin + all.size() * part / options.clients;
      };
      auto& own = samples[static_cast<std::size_t>(client)];
      own.insert(own.end(), cut(client), cut(client + 1));
    }
  }
  return from_clients(samples, "has no sample", "have fewer clients");
}

}  // namespace hanse
