#include "hanse/data/federation.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "client_source.hpp"
#include "convert.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse_file.hpp"
#include "hold_out.hpp"
#include "kinds.hpp"
#include "mapped_file.hpp"
#include "sources.hpp"

namespace hanse {

// What every rank must know of the data to use them. Only int64_t, for one broadcast.
struct FederationSizes {
  int64_t clients;  // with training samples
  int64_t held_out;
  int64_t samples;
  int64_t train_samples;
  int64_t sample_values;
  int64_t storage;
  int64_t classes;
  int64_t extents;  // of the shape of one sample
  int64_t digest;
  // Where the samples' arrays start in their memory, in bytes, and how long it is.
  int64_t features, labels, targets;
  int64_t bytes;
};

namespace {

// What the first rank of a host finds.
struct Found {
  std::unique_ptr<ClientSource> source;  // null: the samples are mapped
  ClientLayout layout;                   // clients as the file has them
  FederationSizes sizes{};
};

FederationSizes sizes_of(const ClientLayout& layout) {
  return {.samples = layout.samples(),
          .sample_values = layout.sample_values(),
          .storage = static_cast<int64_t>(layout.storage),
          .classes = layout.classes,
          .extents = static_cast<int64_t>(layout.shape.size())};
}

// In shared memory each array starts on its own cache line.
void place(FederationSizes& sizes, int64_t feature_bytes) {
  const auto round = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  sizes.features = 0;
  sizes.labels = sizes.targets = round(feature_bytes);
  sizes.bytes = sizes.labels + round(4 * sizes.samples);
}

Found find_file(const DataOptions& data, const FederationOptions& federation) {
  check_own_clients(data, federation);
  Found found;
  const HanseFile file = inspect_hanse_file(data.path);
  found.layout = file.layout;
  found.sizes = sizes_of(file.layout);
  found.sizes.features = file.features;
  found.sizes.labels = file.labels;
  found.sizes.targets = file.targets;
  found.sizes.bytes = file.bytes;
  const auto memory = map_file(data.path, file.bytes, Access::kRead);
  const SampleArrays arrays = arrays_of(file, memory.get());
  check_labels(file, arrays, data.path);
  const auto digest = file.digest < 0
                          ? digest_of(file.layout, arrays)
                          : *reinterpret_cast<const uint64_t*>(memory.get() + file.digest);
  found.sizes.digest = static_cast<int64_t>(digest);
  return found;
}

// Linux ends a process that writes to more memory than there is, without a word.
void require_memory(int64_t bytes, const std::string& path) {
  const int64_t available = available_memory();
  if (bytes <= available) return;
  throw IoError(
      fmt::format("the samples take {:.1f} GB of memory, and there are {:.1f} GB",
                  1e-9 * static_cast<double>(bytes), 1e-9 * static_cast<double>(available)),
      path, "hanse convert JOB.cfg OUT.h5 writes a file that runs map and do not load");
}

Found find_source(const DataOptions& data, const FederationOptions& federation, uint64_t seed) {
  Found found;
  found.source = make_client_source(data, federation, seed);
  found.layout = found.source->layout();
  found.sizes = sizes_of(found.layout);
  place(found.sizes, found.layout.samples() * found.layout.sample_bytes());
  require_memory(found.sizes.bytes, data.path);
  return found;
}

// Collective. A failure on any rank is one on all of them.
std::shared_ptr<std::byte> together(Communicator& host,
                                    const std::function<std::shared_ptr<std::byte>()>& make) {
  std::shared_ptr<std::byte> memory;
  std::exception_ptr failure;
  try {
    memory = make();
  } catch (...) {
    failure = std::current_exception();
  }
  agree(host, failure);
  return memory;
}

// Collective. The samples of all ranks of the host: read into shared memory, or the mapped file.
std::shared_ptr<std::byte> hold_samples(Found& found, const DataOptions& data,
                                        const FederationSizes& sizes, Communicator& host) {
  const bool mapped = find_data_kind(data.kind).traits.mapped;
  const auto memory = together(host, [&] {
    return mapped ? map_file(data.path, sizes.bytes, Access::kRead)
                  : host.allocate_shared(sizes.bytes);
  });
  agree_on(host, [&] {
    if (!found.source) return;
    const bool classes = sizes.classes > 0;
    const SampleArrays arrays{
        .features = memory.get() + sizes.features,
        .labels = classes ? reinterpret_cast<int32_t*>(memory.get() + sizes.labels) : nullptr,
        .targets = classes ? nullptr : reinterpret_cast<float*>(memory.get() + sizes.targets)};
    found.source->write(arrays);
    found.sizes.digest = static_cast<int64_t>(digest_of(found.layout, arrays));
    found.source.reset();
  });
  return memory;
}

// Collective. Shared, so that a host has one copy for all its ranks.
std::shared_ptr<std::byte> hold_ranges(const std::vector<ClientRanges>& ranges,
                                       const FederationSizes& sizes, Communicator& host) {
  const auto bytes = (sizes.clients + sizes.held_out) * static_cast<int64_t>(sizeof(ClientRanges));
  const auto memory = together(host, [&] { return host.allocate_shared(bytes); });
  if (host.rank() == 0) std::memcpy(memory.get(), ranges.data(), static_cast<std::size_t>(bytes));
  return memory;
}

// Who is held out decides what is trained on: counts and order of the clients.
void hold_out_clients(Found& found, const FederationOptions& federation, uint64_t seed) {
  ClientLayout& layout = found.layout;
  hold_out(layout.clients, layout.held_out, federation.held_out, seed);
  found.sizes.held_out = layout.held_out;
  found.sizes.clients = static_cast<int64_t>(layout.clients.size()) - layout.held_out;
  for (int64_t c = 0; c < found.sizes.clients; ++c) {
    const ClientRanges& own = layout.clients[static_cast<std::size_t>(c)];
    found.sizes.train_samples += own.train_end - own.begin;
  }
}

void share(FederationSizes& sizes, Communicator& host) {
  constexpr std::size_t kFields = sizeof sizes / sizeof(int64_t);
  host.bcast(std::span(reinterpret_cast<int64_t*>(&sizes), kFields), 0);
}

}  // namespace

void Federation::map(const FederationSizes& sizes) {
  const std::byte* start = samples_memory_.get();
  features_ = start + sizes.features;
  if (sizes.classes > 0) {
    labels_ = reinterpret_cast<const int32_t*>(start + sizes.labels);
  } else {
    targets_ = reinterpret_cast<const float*>(start + sizes.targets);
  }
  ranges_ = reinterpret_cast<const ClientRanges*>(ranges_memory_.get());
  storage_ = static_cast<Storage>(sizes.storage);
  clients_ = sizes.clients;
  held_out_ = sizes.held_out;
  samples_ = sizes.samples;
  sample_values_ = sizes.sample_values;
  classes_ = sizes.classes;
  train_samples_ = sizes.train_samples;
  bytes_ = sizes.bytes + (clients_ + held_out_) * static_cast<int64_t>(sizeof(ClientRanges));
  digest_ = static_cast<uint64_t>(sizes.digest);
}

Federation Federation::load(const DataOptions& data, const FederationOptions& federation,
                            uint64_t seed, Communicator& host) {
  const bool first = host.rank() == 0;
  Found found;
  agree_on(host, [&] {
    if (!first) return;
    found = find_data_kind(data.kind).traits.mapped ? find_file(data, federation)
                                                    : find_source(data, federation, seed);
  });
  share(found.sizes, host);
  Federation result;
  result.shape_ = found.layout.shape;
  result.shape_.resize(static_cast<std::size_t>(found.sizes.extents));
  host.bcast(std::span<int64_t>(result.shape_), 0);
  result.samples_memory_ = hold_samples(found, data, found.sizes, host);
  agree_on(host, [&] {
    if (first) hold_out_clients(found, federation, seed);
  });
  share(found.sizes, host);
  result.ranges_memory_ = hold_ranges(found.layout.clients, found.sizes, host);
  host.barrier();  // samples and ranges are there
  result.map(found.sizes);
  return result;
}

void Federation::gather(int64_t begin, std::span<const int32_t> order, float* out) const {
  const int64_t values = sample_values_;
  if (storage_ != Storage::kFloat) {
    const std::byte* rows = features_ + begin * values;
    for (const int32_t row : order) {
      bytes_to_floats(rows + row * values, out, values, scale());
      out += values;
    }
    return;
  }
  const auto row_bytes = static_cast<std::size_t>(values) * sizeof(float);
  const auto* rows = reinterpret_cast<const float*>(features_) + begin * values;
  for (const int32_t row : order) {
    std::memcpy(out, rows + row * values, row_bytes);
    out += values;
  }
}

namespace {

// out[i] <- all[begin + order[i]], when there are such values.
template <class T>
void pick(std::span<const T> all, int64_t begin, std::span<const int32_t> order,
          std::vector<T>& out) {
  out.resize(all.empty() ? 0 : order.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = all[static_cast<std::size_t>(begin + order[i])];
  }
}

}  // namespace

void Federation::gather_labels(int64_t begin, std::span<const int32_t> order,
                               std::vector<int32_t>& out) const {
  pick(labels(), begin, order, out);
}

void Federation::gather_targets(int64_t begin, std::span<const int32_t> order,
                                std::vector<float>& out) const {
  pick(targets(), begin, order, out);
}

void Federation::prefetch(int64_t begin, std::span<const int32_t> order) const {
  constexpr int64_t kLine = 64;
  const int64_t row_bytes = sample_values_ * storage_bytes(storage_);
  for (const int32_t row : order) {
    const std::byte* sample = features_ + (begin + row) * row_bytes;
    for (int64_t at = 0; at < row_bytes; at += kLine) __builtin_prefetch(sample + at, 0, 2);
  }
}

void Federation::copy(SampleRange range, float* out) const {
  const int64_t count = range.size() * sample_values_;
  const int64_t start = range.begin * sample_values_;
  if (storage_ != Storage::kFloat) {
    bytes_to_floats(features_ + start, out, count, scale());
  } else {
    std::memcpy(out, reinterpret_cast<const float*>(features_) + start,
                static_cast<std::size_t>(count) * sizeof(float));
  }
}

}  // namespace hanse
