
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "kinds.hpp"
#include "partition/partition_kinds.hpp"
#include "partition/split.hpp"

namespace hanse {

namespace {

// Samples in memory that a partition gives to clients.
class PartitionedSource final : public ClientSource {
 public:
  // `names` are the clients', or none. The samples behind the dataset's last label are the common
  // test set, whose labels are `common_labels`.
  PartitionedSource(Dataset dataset, Partition partition, std::vector<std::string> names,
                    const std::vector<int32_t>& common_labels)
      : dataset_(std::move(dataset)), order_(std::move(partition.order)) {
    for (const int32_t label : common_labels) {
      order_.push_back(dataset_.size());
      dataset_.labels.push_back(label);
    }
    layout_.common_test = std::ssize(common_labels);
    layout_.client_names = std::move(names);
    layout_.class_names = dataset_.class_names;
    layout_.record = std::move(dataset_.record);
    for (const OpenColumn& open : dataset_.open) {
      if (open.levels.empty()) continue;
      layout_.record.values[to_index(open.feature)].levels = open.levels;
    }
    layout_.left_out = dataset_.left_out;
    layout_.unread = dataset_.unread;
    layout_.shape = dataset_.shape;
    layout_.storage = dataset_.storage;
    layout_.classes = dataset_.classes;
    layout_.label_values = dataset_.label_values;
    layout_.multi_label = dataset_.multi_label;
    layout_.clients.reserve(partition.train_end.size());
    for (std::size_t c = 0; c < partition.train_end.size(); ++c) {
      layout_.clients.push_back({partition.offsets[c], partition.train_end[c],
                                 partition.offsets[c + 1],
                                 partition.validation.empty() ? 0 : partition.validation[c]});
    }
  }

  void write(const SampleArrays& out) override {
    const std::vector<int64_t>& order = order_;
    copy_ordered(out.features, dataset_.features.data(), order, 0, dataset_.sample_bytes());
    dataset_.features.clear();  // memory for the labels' second copy
    dataset_.features.shrink_to_fit();
    auto* labels = reinterpret_cast<std::byte*>(out.labels);
    auto* targets = reinterpret_cast<std::byte*>(out.targets);
    const int64_t width = layout_.label_bytes();
    if (labels) copy_ordered(labels, dataset_.labels.data(), order, 0, width);
    if (targets) copy_ordered(targets, dataset_.targets.data(), order, 0, width);
    for (std::size_t i = 0; out.rows && i < order.size(); ++i) {
      out.rows[i] = dataset_.rows.empty() ? order[i] : dataset_.rows[to_index(order[i])];
    }
  }

 private:
  Dataset dataset_;
  std::vector<int64_t> order_;  // behind all clients' samples stands the common test set
};

// Takes the labels of the source's own test samples out of the dataset; clients then share the
// samples before them.
std::vector<int32_t> take_common_labels(const DataOptions& data, Dataset& dataset) {
  if (data.test != OwnTests::kCommon) return {};
  const int64_t begin = dataset.test_begin;
  if (begin < 0 || begin == dataset.size()) {
    throw InvalidArgument(
        "the data have no test samples of their own", "evaluate.test",
        "idx has its t10k files, images a folder test/ (val/ is not read), cifar test_batch.bin "
        "or test.bin");
  }
  if (begin == 0) {
    throw InvalidArgument("the data have test samples alone", "evaluate.test", "use own");
  }
  const std::vector<int32_t> labels(dataset.labels.begin() + begin, dataset.labels.end());
  dataset.labels.resize(static_cast<std::size_t>(begin));
  return labels;
}

void check_counts(const FederationOptions& federation) {
  if (federation.clients >= 1 && federation.samples >= 1) return;
  throw InvalidArgument(
      fmt::format("{} clients of {} samples", federation.clients, federation.samples),
      "federation.clients, federation.samples", "both are at least 1");
}

// Where each client has a preparation of its own, it is called by its name or its number.
void name_preparations(const std::vector<std::string>& names, FeatureRecord& record) {
  auto& own = record.preparations;
  for (std::size_t c = 0; own.size() > 1 && c < own.size(); ++c) {
    own[c].client = names.empty() ? std::to_string(c) : names[c];
  }
}

std::unique_ptr<ClientSource> make_partitioned_source(const DataOptions& data,
                                                      const FederationOptions& federation,
                                                      uint64_t seed) {
  Dataset dataset = read_dataset(data, federation.clients, federation.samples, seed);
  const std::vector<int32_t> common_labels = take_common_labels(data, dataset);
  Partition partition = partition_samples(dataset, federation, seed);
  std::vector<std::string> names;
  const bool named = find_data_kind(data.kind).traits.reads_a_file;
  if (named && takes_own_clients(dataset, federation)) names = dataset.group_names;
  split_train_test(partition, dataset, data.test_fraction, seed);
  split_validation(partition, dataset, names, data.validation_fraction, seed);
  require_left(federation, names, dataset.left_out);
  const auto held_out = untrained_clients(partition.clients(), names, federation, seed);
  if (!data.as_is) {
    complete(dataset, partition, held_out, data.missing, data.standardize);
    standardize(dataset, partition, held_out, data.standardize);
  }
  name_preparations(names, dataset.record);
  return std::make_unique<PartitionedSource>(std::move(dataset), std::move(partition),
                                             std::move(names), common_labels);
}

std::unique_ptr<ClientSource> source_of(const DataOptions& data,
                                        const FederationOptions& federation, uint64_t seed) {
  const DataKind& kind = find_data_kind(data.kind);
  if (!kind.stream && !kind.read) return make_copied_source(data.path);
  if (!kind.stream) return make_partitioned_source(data, federation, seed);
  return kind.stream(data, federation, seed);
}

}  // namespace

void check_own_clients(const DataOptions& data, const FederationOptions& federation) {
  const DataKind& kind = find_data_kind(data.kind);
  if (!kind.traits.own_clients) return;
  // Another partition would mix the clients, whose differences matter in these data.
  if (federation.partition != "by-column" && federation.partition != "auto") {
    throw InvalidArgument(fmt::format("data.kind = {} has clients of its own, {} gives their "
                                      "samples to others",
                                      data.kind, federation.partition),
                          "federation.partition", "use by-column, or auto");
  }
  if (kind.read) return;  // the checks below are for other kinds
  if (kind.traits.mapped && data.validation_fraction > 0) {
    throw InvalidArgument(
        fmt::format("data.kind = {} has the samples for validation in its file", data.kind),
        "data.validation-fraction", "leave it 0, and give it to hanse convert");
  }
  if (!data.labels.empty()) {
    throw InvalidArgument(fmt::format("data.kind = {} keeps all classes", data.kind), "data.labels",
                          "leave it empty");
  }
  if (data.standardize != Standardize::kNone) {
    throw InvalidArgument(fmt::format("data.kind = {} is not standardized", data.kind),
                          "data.standardize", "use none; only data.kind = csv can");
  }
}

std::optional<int64_t> clients_before_reading(const DataOptions& data,
                                              const FederationOptions& federation) {
  const DataKind& kind = find_data_kind(data.kind);
  // The data may have clients of their own, or classes that make clients.
  const std::string& partition = federation.partition;
  const bool by_data = kind.traits.own_clients || partition == "by-column" ||
                       partition == "by-label" || (partition == "auto" && kind.traits.reads_a_file);
  int64_t clients = federation.clients;
  if (by_data || clients < 1) return std::nullopt;
  for (const HeldOut* held : {&federation.held_out, &federation.validation_clients}) {
    if (!held->names.empty()) return std::nullopt;
    const int64_t number = part_of(held->number, clients);
    if (number >= clients) return std::nullopt;  // which is refused
    clients -= number;
  }
  return clients;
}

std::unique_ptr<ClientSource> make_client_source(const DataOptions& data,
                                                 const FederationOptions& federation,
                                                 uint64_t seed) {
  check_counts(federation);
  check_own_clients(data, federation);
  auto source = source_of(data, federation, seed);
  if (source->layout().sample_values() < 1) {
    throw InvalidArgument("a sample has no values", data.path, "one of its extents is 0");
  }
  check_names(source->layout(), data.path);
  return source;
}

}  // namespace hanse
