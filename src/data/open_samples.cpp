#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client_source.hpp"
#include "csv/new_rows.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/data/new_samples.hpp"
#include "kinds.hpp"

namespace hanse {

namespace {

// Samples in memory, in their order.
class HeldSamples final : public NewSamples {
 public:
  HeldSamples(const DataOptions& data, const FeatureRecord& record, const Preparation& own)
      : record_(record) {
    const DataKind& kind = find_data_kind(data.kind);
    if (kind.read) {
      read(data);
    } else {
      copy(data);
    }
    if (shape_ != record.shape) {
      throw InvalidArgument(
          fmt::format("samples have the shape {}, those of the run {}", shape_, record.shape),
          data.path, "convert them, or set data.shape when you train");
    }
    if (!kind.traits.mapped) scales_ = own.scales;  // else hanse convert has scaled them
  }

  const std::vector<std::string>& names() const override { return names_; }

  bool next(std::span<float> values, std::vector<std::string>& texts) override {
    if (sample_ == samples_) return false;
    convert(values);
    prepare(values);
    texts = {std::to_string(sample_)};
    if (!clients_.empty()) {
      while (sample_ >= clients_[client_].end) ++client_;
      texts.push_back(client_names_.empty() ? std::to_string(client_) : client_names_[client_]);
    }
    ++sample_;
    return true;
  }

 private:
  // Data without clients of their own.
  void read(const DataOptions& data) {
    Dataset dataset = read_dataset(data, 1, 1, 1);
    shape_ = dataset.shape;
    storage_ = dataset.storage;
    samples_ = dataset.size();
    features_ = std::move(dataset.features);
  }

  // Data of clients, one after another.
  void copy(const DataOptions& data) {
    const auto source = make_client_source(data, FederationOptions{.min_samples = 1}, 1);
    const ClientLayout& layout = source->layout();
    shape_ = layout.shape;
    storage_ = layout.storage;
    samples_ = layout.samples();
    clients_ = layout.clients;
    if (layout.common_test > 0) {
      clients_.push_back({layout.client_samples(), samples_, samples_});
    }
    client_names_ = layout.client_names;
    if (!client_names_.empty()) client_names_.resize(clients_.size());
    names_.push_back("client");
    features_.resize(to_index(samples_ * layout.sample_bytes()));
    std::vector<std::byte> labels(to_index(samples_ * layout.label_bytes()));
    const bool has_classes = layout.classes > 0;
    source->write({.features = features_.data(),
                   .labels = has_classes ? reinterpret_cast<int32_t*>(labels.data()) : nullptr,
                   .targets = has_classes ? nullptr : reinterpret_cast<float*>(labels.data())});
  }

  void convert(std::span<float> values) const {
    const std::byte* from =
        features_.data() + sample_ * std::ssize(values) * storage_bytes(storage_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      switch (storage_) {
        case Storage::kFloat: values[i] = reinterpret_cast<const float*>(from)[i]; break;
        case Storage::kToken16: values[i] = reinterpret_cast<const uint16_t*>(from)[i]; break;
        case Storage::kToken: values[i] = static_cast<float>(static_cast<uint8_t>(from[i])); break;
        case Storage::kByte:
          values[i] = static_cast<float>(static_cast<uint8_t>(from[i])) * (1.0F / 255.0F);
      }
    }
  }

  void prepare(std::span<float> values) const {
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      values[i] = static_cast<float>(scales_[i].of(static_cast<double>(values[i])));
    }
    const std::size_t plane =
        record_.channels.empty() ? 0 : values.size() / record_.channels.size();
    for (std::size_t c = 0; c < record_.channels.size(); ++c) {
      const auto mean = static_cast<float>(record_.channels[c].mean);
      const auto share = static_cast<float>(1 / record_.channels[c].deviation);
      for (float& value : values.subspan(c * plane, plane)) value = (value - mean) * share;
    }
  }

  const FeatureRecord& record_;
  std::span<const ValueScale> scales_;
  std::vector<std::string> names_ = {"id"};
  std::vector<int64_t> shape_;
  Storage storage_ = Storage::kFloat;
  std::pmr::vector<std::byte> features_;
  int64_t samples_ = 0, sample_ = 0;
  std::vector<ClientRanges> clients_;  // empty: the data have none
  std::vector<std::string> client_names_;
  std::size_t client_ = 0;
};

// All samples of the data, in one part.
DataOptions whole(DataOptions data, const FeatureRecord& record) {
  data.labels.clear();
  data.test_path.clear();
  data.test_fraction = data.validation_fraction = 0;
  data.test = OwnTests::kOwn;
  data.standardize = Standardize::kNone;
  data.words = record.vocabulary;
  if (record.labels.multi_label) data.tag_names = record.class_names;
  return data;
}

// Is the path a table? The data of a run may be one that hanse convert has mapped.
bool is_table(const DataOptions& data, const FeatureRecord& record) {
  if (!record.has_columns()) return false;
  return !find_data_kind(data.kind).traits.mapped || !data.path.ends_with(".h5");
}

}  // namespace

std::unique_ptr<NewSamples> open_new_samples(const DataOptions& data, const FeatureRecord& record,
                                             const Preparation& own, UnknownLevels unknown) {
  const DataKind& kind = find_data_kind(data.kind);
  if (!kind.traits.reads_a_file) {
    throw InvalidArgument(fmt::format("data.kind = {} reads no file", data.kind), "data.kind",
                          "the run's samples were made up");
  }
  if (!data_exist(data.path)) throw InvalidArgument(missing_text(data.path), "");
  if (is_table(data, record)) return open_new_rows(data.path, record, own, unknown);
  return std::make_unique<HeldSamples>(whole(data, record), record, own);
}

}  // namespace hanse
