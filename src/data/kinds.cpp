#include "kinds.hpp"

#include <array>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

int64_t all_samples(int64_t clients, int64_t samples_per_client) {
  int64_t samples = 0;
  if (__builtin_mul_overflow(clients, samples_per_client, &samples)) {
    throw InvalidArgument("too many random samples", "federation.samples", "have fewer");
  }
  return samples;
}

Dataset read_idx(const DataOptions& data, int64_t, int64_t, uint64_t) {
  return read_idx_folder(data.path);
}

Dataset read_table(const DataOptions& data, int64_t, int64_t, uint64_t) {
  return read_csv(data.path, data);
}

Dataset read_random(const DataOptions& data, int64_t clients, int64_t samples_per_client,
                    uint64_t seed) {
  return make_random(data.shape, data.classes, all_samples(clients, samples_per_client), seed,
                     data.tokens);
}

std::unique_ptr<ClientSource> stream_tff(const DataOptions& data, const FederationOptions&,
                                         uint64_t seed) {
  return make_tff_source(data, seed);
}

std::unique_ptr<ClientSource> stream_leaf(const DataOptions& data, const FederationOptions&,
                                          uint64_t seed) {
  return make_leaf_source(data, seed);
}

std::unique_ptr<ClientSource> stream_roles(const DataOptions& data,
                                           const FederationOptions& federation, uint64_t) {
  return make_role_source(data, federation.min_samples);
}

const std::array<DataKind, 8> kKinds = {{
    {.info = {"idx", "MNIST's format, plain or gzip"}, .read = read_idx},
    {.info = {"csv", "numeric columns, a label column, a client column"}, .read = read_table},
    {.info = {"tff", "TensorFlow Federated's HDF5: EMNIST, CIFAR-100, Shakespeare, Stack Overflow"},
     .clients = OwnClients::kAlways,
     .stream = stream_tff},
    {.info = {"leaf", "LEAF's JSON folders: FEMNIST, Shakespeare, Synthetic; FLUTE's files"},
     .clients = OwnClients::kAlways,
     .stream = stream_leaf},
    {.info = {"text", "what each speaking role of a play says, to predict the next character"},
     .clients = OwnClients::kAlways,
     .stream = stream_roles},
    {.info = {"hanse", "Hanse's HDF5, written by hanse convert: mapped, nothing is copied"},
     .clients = OwnClients::kAlways,
     .mapped = true},
    {.info = {"random", "random images in the shape asked for, for benchmarks", false},
     .read = read_random},
    {.info = {"synthetic-regression",
              "linear regression on clients of unequal scale (Zhao et al. 2025)", false},
     .clients = OwnClients::kAlways,
     .read = make_synthetic_regression},
}};

}  // namespace

const DataKind& find_data_kind(const std::string& name) {
  std::vector<std::string> known;
  for (const DataKind& kind : kKinds) {
    if (kind.info.name == name) return kind;
    known.push_back(kind.info.name);
  }
  throw InvalidArgument(
      fmt::format("unknown data.kind '{}'", name), "data.kind",
      fmt::format("did you mean '{}'? known: {}", nearest(name, known), join(known, ", ")));
}

std::vector<DataKindInfo> data_kinds() {
  std::vector<DataKindInfo> infos;
  for (const DataKind& kind : kKinds) infos.push_back(kind.info);
  return infos;
}

Dataset read_dataset(const DataOptions& options, int64_t clients, int64_t samples_per_client,
                     uint64_t seed) {
  const DataKind& kind = find_data_kind(options.kind);
  if (!kind.read) {
    throw InvalidArgument(fmt::format("data.kind = {} keeps its own clients", options.kind),
                          "data.kind", "convert a csv, idx or made up data set instead");
  }
  Dataset dataset = kind.read(options, clients, samples_per_client, seed);
  return options.labels.empty() ? dataset : keep_labels(std::move(dataset), options.labels);
}

}  // namespace hanse
