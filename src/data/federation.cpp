#include "hanse/data/federation.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "byte_floats.hpp"
#include "client_source.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "kinds.hpp"
#include "normalize.hpp"
#include "partition/split.hpp"

namespace hanse {

namespace {

// The data that the first rank of a host finds.
struct Found {
  std::unique_ptr<ClientSource> source;  // null: the samples are mapped, or in memory
  ClientLayout layout;                   // clients as the file has them; a source has its own
  FederationSizes sizes;
};

FederationSizes sizes_of(const ClientLayout& layout, const SamplePlaces& places) {
  return {.samples = layout.samples(),
          .common_test = layout.common_test,
          .sample_values = layout.sample_values(),
          .storage = static_cast<int64_t>(layout.storage),
          .classes = layout.classes,
          .label_values = layout.label_values,
          .multi_label = layout.multi_label ? 1 : 0,
          .extents = std::ssize(layout.shape),
          .places = places};
}

// Each array starts on its own cache line in shared memory.
SamplePlaces place(const ClientLayout& layout) {
  const auto round = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  SamplePlaces places{.features = 0};
  int64_t& second = layout.classes > 0 ? places.labels : places.targets;
  second = round(layout.samples() * layout.sample_bytes());
  places.bytes = second + round(layout.samples() * layout.label_bytes());
  return places;
}

Found find_file(const DataOptions& data, const FederationOptions& federation) {
  check_own_clients(data, federation);
  const HanseFile file = open_hanse_file(data.path);
  check_names(file.layout, data.path);
  Found found{.layout = file.layout, .sizes = sizes_of(file.layout, file.places)};
  found.sizes.digest = static_cast<int64_t>(file.digest);
  return found;
}

Found find_source(const DataOptions& data, const FederationOptions& federation, uint64_t seed) {
  Found found;
  found.source = make_client_source(data, federation, seed);
  const ClientLayout& layout = found.source->layout();
  found.layout.shape = layout.shape;
  found.sizes = sizes_of(layout, place(layout));
  require_memory(found.sizes.places.bytes, "the samples take", data.path,
                 "hanse convert JOB.cfg OUT.h5 writes a file that runs map and do not load");
  return found;
}

// Collective. The samples for all ranks of the host: read into shared memory, or the mapped file.
// `rows` gets the samples' places in the source, unless it is null.
std::shared_ptr<std::byte> hold_samples(Found& found, const DataOptions& data, int64_t* rows,
                                        Communicator& host) {
  const SamplePlaces& places = found.sizes.places;
  std::shared_ptr<std::byte> memory;
  const bool mapped = find_data_kind(data.kind).traits.mapped;
  agree_on(host, [&] {
    memory = mapped ? map_file(data.path, places.bytes, Access::kRead)
                    : host.allocate_shared(places.bytes);  // fails on all ranks, or on none
  });
  agree_on(host, [&] {
    if (!found.source) return;
    SampleArrays arrays = arrays_at(places, memory.get());
    arrays.rows = rows;
    if (rows) std::iota(rows, rows + found.sizes.samples, int64_t{0});
    found.source->write(arrays);
    found.layout = found.source->take_layout();
    found.source.reset();
    found.sizes.digest = static_cast<int64_t>(digest_of(found.layout, arrays));
  });
  return memory;
}

// Collective. Room for the samples' places in the source; null: they are not kept, or the file has
// them no more.
std::shared_ptr<int64_t> hold_rows(const FederationSizes& sizes, const DataOptions& data,
                                   Communicator& host) {
  if (!data.rows || find_data_kind(data.kind).traits.mapped) return nullptr;
  std::shared_ptr<std::byte> memory;
  const auto bytes = sizes.samples * static_cast<int64_t>(sizeof(int64_t));
  agree_on(host, [&] { memory = host.allocate_shared(bytes); });
  return {memory, reinterpret_cast<int64_t*>(memory.get())};
}

// Collective. Shares them, so that a host has one copy for all its ranks; one rank keeps those that
// it has.
std::shared_ptr<std::byte> hold_ranges(std::vector<ClientRanges>&& ranges,
                                       const FederationSizes& sizes, Communicator& host) {
  if (host.size() == 1) {
    const auto own = std::make_shared<std::vector<ClientRanges>>(std::move(ranges));
    return {own, reinterpret_cast<std::byte*>(own->data())};
  }
  const auto bytes = (sizes.clients + sizes.held_out) * static_cast<int64_t>(sizeof(ClientRanges));
  std::shared_ptr<std::byte> memory;
  agree_on(host, [&] { memory = host.allocate_shared(bytes); });
  if (host.rank() == 0) std::memcpy(memory.get(), ranges.data(), static_cast<std::size_t>(bytes));
  return memory;
}

// Counts a client that is trained on.
void add_trained(const ClientRanges& own, FederationSizes& sizes) {
  sizes.train_samples += own.train_end - own.begin;
  sizes.validation_samples += own.validation;
}

// Clients without names are called by their numbers, which change where others are held out.
void renumber(const std::vector<ClientRanges>& before, ClientLayout& layout) {
  std::vector<Preparation>& own = layout.record.preparations;
  if (!layout.client_names.empty() || own.size() != before.size()) return;
  for (std::size_t now = 0; now < layout.clients.size(); ++now) {
    const int64_t begin = layout.clients[now].begin;
    const auto old = std::ranges::lower_bound(before, begin, {}, &ClientRanges::begin);
    own[to_index(old - before.begin())].client = std::to_string(now);
  }
}

// Counts and orders the clients: those held out are not trained on.
void hold_out_clients(Found& found, const FederationOptions& federation, uint64_t seed) {
  ClientLayout& layout = found.layout;
  require_left(federation, layout.client_names, layout.left_out);
  const std::vector<ClientRanges> before =
      layout.record.is_by_client() ? layout.clients : std::vector<ClientRanges>();
  hold_out(layout.clients, layout.client_names, layout.held_out, federation.held_out, seed);
  const int64_t for_tests = layout.held_out;
  hold_out(layout.clients, layout.client_names, layout.held_out, federation.validation_clients,
           seed, HeldFor::kValidation);
  found.sizes.validation_clients = layout.held_out - for_tests;
  found.sizes.held_out = layout.held_out;
  found.sizes.clients = std::ssize(layout.clients) - layout.held_out;
  renumber(before, layout);
  for (int64_t c = 0; c < found.sizes.clients; ++c) {
    add_trained(layout.clients[static_cast<std::size_t>(c)], found.sizes);
  }
}

// Collective. Shares the scales that the first rank of the host finds.
std::vector<ChannelScale> share_scales(const std::string& text, const Federation& federation,
                                       Communicator& host) {
  std::vector<ChannelScale> scales;
  agree_on(host, [&] {
    if (host.rank() != 0) return;
    scales = channel_scales(text, federation.sample_shape(), [&](const auto& use) {
      std::vector<float> sample(static_cast<std::size_t>(federation.sample_values()));
      for (int64_t client = 0; client < federation.clients(); ++client) {
        const SampleRange own = federation.train(client);
        for (int64_t i = own.begin; i < own.end; ++i) {
          federation.copy({i, i + 1}, sample.data());
          use(sample.data());
        }
      }
    });
  });
  bcast_list(host, scales);
  return scales;
}

void share(FederationSizes& sizes, Communicator& host) {
  constexpr std::size_t kFields = sizeof sizes / sizeof(int64_t);
  host.bcast(std::span(reinterpret_cast<int64_t*>(&sizes), kFields), 0);
}

// Scales `count` values of whole samples, `sample_values` each; without scales they stay.
void normalize(std::span<const ChannelScale> scales, int64_t sample_values, int64_t count,
               float* out) {
  if (scales.empty()) return;
  const int64_t plane = sample_values / std::ssize(scales);
  for (int64_t done = 0; done < count; done += sample_values) {
    for (const ChannelScale& scale : scales) {
      for (int64_t i = 0; i < plane; ++i) out[i] = (out[i] - scale.mean) * scale.share;
      out += plane;
    }
  }
}

// Copies the `each` values of samples begin + order[i] from `all`, unless that is empty.
template <class T>
void pick(std::span<const T> all, int64_t each, int64_t begin, std::span<const int32_t> order,
          std::vector<T>& out) {
  out.resize(all.empty() ? 0 : order.size() * to_index(each));
  if (all.empty()) return;
  T* to = out.data();
  if (each == 1) {  // no call of memmove a sample
    for (const int32_t i : order) *to++ = all[to_index(begin + i)];
    return;
  }
  for (const int32_t i : order) to = std::copy_n(all.data() + (begin + i) * each, each, to);
}

int64_t digest_of_text(const std::string& text) {
  return static_cast<int64_t>(
      std::stoull(digest_hex(std::as_bytes(std::span(text))).substr(0, 16), nullptr, 16));
}

}  // namespace

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
  const std::shared_ptr<int64_t> rows = hold_rows(found.sizes, data, host);
  result.names_.rows = rows;
  result.samples_memory_ = hold_samples(found, data, rows.get(), host);
  agree_on(host, [&] {
    if (first) hold_out_clients(found, federation, seed);
  });
  share(found.sizes, host);
  result.sizes_ = found.sizes;
  auto* memory = const_cast<std::byte*>(result.samples_memory_.get());
  const SampleArrays arrays = arrays_at(found.sizes.places, memory);
  result.features_ = arrays.features;
  result.labels_ = arrays.labels;
  result.targets_ = arrays.targets;
  const bool tells = first && find_data_kind(data.kind).traits.reads_a_file;
  const std::string line = tells ? data_line(found.layout, result.labels()) : "";
  result.ranges_memory_ = hold_ranges(std::move(found.layout.clients), found.sizes, host);
  result.names_.clients = Names::share(found.layout.client_names, host);
  result.names_.classes = Names::share(found.layout.class_names, host);
  host.barrier();  // samples and ranges are there
  result.ranges_ = reinterpret_cast<const ClientRanges*>(result.ranges_memory_.get());
  result.scales_ = share_scales(data.normalize, result, host);
  if (first) {
    FeatureRecord record = record_of(found.layout);
    for (const ChannelScale& scale : result.scales_) {
      record.channels.push_back(
          {static_cast<double>(scale.mean), 1 / static_cast<double>(scale.share)});
    }
    result.names_.features = std::make_shared<const FeatureRecord>(std::move(record));
  }
  if (!line.empty()) notice(line);
  return result;
}

Federation Federation::of(std::span<const int64_t> clients) const {
  Federation view = *this;
  FederationSizes& sizes = view.sizes_;
  sizes.clients = sizes.held_out = sizes.validation_clients = 0;
  sizes.train_samples = sizes.validation_samples = 0;
  std::vector<ClientRanges> ranges;
  ranges.reserve(clients.size());
  for (const int64_t client : clients) {
    ranges.push_back(ranges_[client]);
    const bool is_trained = client < this->clients();
    const bool is_for_tests = !is_trained && !is_for_validation(*this, client);
    if ((is_trained && sizes.held_out > 0) ||
        (!is_for_tests && sizes.held_out > sizes.validation_clients)) {
      throw Error(fmt::format("client {} stands behind others that are held out", client));
    }
    if (is_trained) add_trained(ranges.back(), sizes);
    ++(is_trained ? sizes.clients : sizes.held_out);
    if (!is_trained && !is_for_tests) ++sizes.validation_clients;
  }
  sizes.digest = digest_of_text(fmt::format("{} {}", digest(), fmt::join(clients, " ")));
  view.ranges_memory_ = hold_ranges(std::move(ranges), sizes, *make_single_communicator());
  view.ranges_ = reinterpret_cast<const ClientRanges*>(view.ranges_memory_.get());
  view.names_.clients = names_.clients.of(clients);
  return view;
}

Federation Federation::with_idle(int64_t more) const {
  if (held_out() > 0 || !names_.clients.empty()) {
    throw InvalidArgument(held_out() > 0 ? "clients without data would stand behind held-out ones"
                                         : "clients without data have no names, and all others do",
                          "attack.idle", "let some of the clients attack: attack.idle = false");
  }
  Federation view = *this;
  FederationSizes& sizes = view.sizes_;
  std::vector<ClientRanges> ranges(ranges_, ranges_ + clients());
  ranges.resize(ranges.size() + to_index(more), {samples(), samples(), samples(), 0});
  sizes.clients += more;
  sizes.digest = digest_of_text(fmt::format("{} and {}", digest(), more));
  view.ranges_memory_ = hold_ranges(std::move(ranges), sizes, *make_single_communicator());
  view.ranges_ = reinterpret_cast<const ClientRanges*>(view.ranges_memory_.get());
  return view;
}

int64_t Federation::bytes() const {
  return sizes_.places.bytes +
         (clients() + held_out()) * static_cast<int64_t>(sizeof(ClientRanges));
}

std::vector<double> train_shares(const Federation& federation) {
  std::vector<double> shares;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    shares.push_back(train_share(federation, client));
  }
  return shares;
}

// Prefetching all of `next` at once would fill the processor's list of misses, and the conversion
// would wait: a round of jobs/bench-lr.cfg takes 1.2 times as long then.
void Federation::gather(int64_t begin, std::span<const int32_t> order, float* out,
                        ListedSamples next) const {
  for (std::size_t i = 0; i < order.size(); ++i) {
    values_of(begin + order[i], sample_values(), out);
    out += sample_values();
    if (i < next.order.size()) prefetch(next.begin + next.order[i]);
  }
}

void Federation::copy(SampleRange range, float* out) const {
  values_of(range.begin, range.size() * sample_values(), out);
}

// Writes `count` values from the start of a sample on.
void Federation::values_of(int64_t sample, int64_t count, float* out) const {
  const auto storage = static_cast<Storage>(sizes_.storage);
  const std::byte* start = features_ + sample * sample_values() * storage_bytes(storage);
  if (storage == Storage::kFloat) {
    std::memcpy(out, start, static_cast<std::size_t>(count) * sizeof(float));
  } else if (storage == Storage::kToken16) {
    std::copy_n(reinterpret_cast<const uint16_t*>(start), count, out);
  } else {
    bytes_to_floats(start, out, count, storage == Storage::kByte ? 1.0F / 255.0F : 1.0F);
  }
  normalize(scales_, sample_values(), count, out);
}

void Federation::gather_labels(int64_t begin, std::span<const int32_t> order,
                               std::vector<int32_t>& labels, std::vector<float>& targets) const {
  pick(this->labels(), sizes_.label_values, begin, order, labels);
  pick(this->targets(), sizes_.label_values, begin, order, targets);
}

void Federation::prefetch(int64_t sample) const {
  constexpr int64_t kLine = 64;
  const int64_t bytes = sample_values() * storage_bytes(static_cast<Storage>(sizes_.storage));
  const std::byte* start = features_ + sample * bytes;
  for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(start + at, 0, 2);
  if (labels_ != nullptr) __builtin_prefetch(labels_ + sample * sizes_.label_values);
}

}  // namespace hanse
