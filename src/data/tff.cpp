// TensorFlow Federated's data sets; data/README.md has the grammar.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "text_source.hpp"
#include "tff_pair.hpp"
#include "tff_tags.hpp"

namespace hanse {

namespace {

[[noreturn]] void refuse(const std::string& what, const hdf5::Dataset& dataset,
                         const std::string& hint) {
  throw InvalidArgument(what, dataset.file(), hint);
}

bool has_bytes(const hdf5::Dataset& dataset) { return dataset.type() == hdf5::kTypeOf<uint8_t>; }

bool has_numbers(const hdf5::Dataset& dataset) {
  return dataset.type().kind == hdf5::Kind::kInteger || dataset.type().kind == hdf5::Kind::kFloat;
}

bool has_texts(const hdf5::Dataset& dataset) { return dataset.type().kind == hdf5::Kind::kText; }

// ---- arrays with labels ----

// Images as [channels, height, width]; other samples as they stand.
std::vector<int64_t> sample_shape(const std::vector<int64_t>& own) {
  if (own.empty()) return {1};
  if (own.size() == 2) return {1, own[0], own[1]};
  if (own.size() == 3) return {own[2], own[0], own[1]};
  return own;
}

class ArraySource final : public ClientSource {
 public:
  ArraySource(std::unique_ptr<TffPair> files, std::string features, const DataOptions& data,
              uint64_t seed)
      : files_(std::move(files)),
        features_(std::move(features)),
        label_(data.label_column),
        test_fraction_(files_->has_test() ? 0 : data.test_fraction),
        validation_fraction_(data.validation_fraction),
        seed_(seed) {
    read_input([&] { survey(); });
  }

  void write(const SampleArrays& out) override {
    std::copy(labels_.begin(), labels_.end(), out.labels);
    read_input([&] { write_features(out); });
    split_clients(layout_, test_fraction_, validation_fraction_, seed_, out);
  }

 private:
  void survey();
  int64_t read_labels(const std::optional<hdf5::Dataset>& found);
  void learn_layout(const hdf5::Dataset& dataset);
  void write_features(const SampleArrays& out);
  void write_part(const std::optional<hdf5::Dataset>& dataset, int64_t begin, int64_t end,
                  const SampleArrays& out);
  void check_features(const hdf5::Dataset& dataset, int64_t samples) const;
  template <class T>
  void read_samples(const hdf5::Dataset& dataset, T* out);

  std::unique_ptr<TffPair> files_;
  std::string features_;
  std::string label_;
  double test_fraction_, validation_fraction_;
  uint64_t seed_;
  std::vector<int64_t> extents_;  // of one sample, in the file
  std::vector<int32_t> labels_;   // of all samples, in the layout's order
  std::vector<std::byte> scratch_;
};

// Appends a part's labels and returns their number.
int64_t ArraySource::read_labels(const std::optional<hdf5::Dataset>& found) {
  if (!found) return 0;
  const hdf5::Dataset& dataset = *found;
  const auto& shape = dataset.shape();
  if (dataset.type().kind != hdf5::Kind::kInteger) {
    refuse("labels are integers, these are not", dataset, "set data.label-column");
  }
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[1] != 1)) {
    refuse("labels have the extents [n] or [n, 1], these have others", dataset,
           "set data.label-column");
  }
  const std::size_t start = labels_.size();
  labels_.resize(start + static_cast<std::size_t>(dataset.size()));
  dataset.read(labels_.data() + start);
  for (const int32_t label : std::span(labels_).subspan(start)) {
    if (label < 0 || label >= kMostClasses) {
      refuse(fmt::format("the label {} is no class", label), dataset, "classes count from 0");
    }
    layout_.classes = std::max<int64_t>(layout_.classes, label + 1);
  }
  return dataset.size();
}

void ArraySource::learn_layout(const hdf5::Dataset& dataset) {
  if (!has_numbers(dataset)) {
    refuse("features are numbers, these are not", dataset, "set data.feature-column");
  }
  if (dataset.shape().empty()) refuse("the features have no extent", dataset, "[n, ...] expected");
  extents_.assign(dataset.shape().begin() + 1, dataset.shape().end());
  layout_.shape = sample_shape(extents_);
  layout_.storage = has_bytes(dataset) ? Storage::kByte : Storage::kFloat;
}

void ArraySource::survey() {
  learn_layout(files_->train_file().dataset(0, features_));
  const int64_t train_clients = files_->train_file().clients();
  std::vector<int64_t> train, test;
  for (int64_t c = 0; c < files_->clients(); ++c) {
    train.push_back(read_labels(files_->dataset(0, c, label_)));
    test.push_back(read_labels(files_->dataset(1, c, label_)));
    if (train.back() + test.back() == 0 || (train.back() == 0 && c < train_clients)) {
      throw InvalidArgument(fmt::format("client '{}' has no training sample", files_->name(c)),
                            "data.path", "every client needs one");
    }
  }
  for (const std::size_t c : lay_out(layout_, train, test, test_fraction_)) {
    layout_.client_names.push_back(files_->name(static_cast<int64_t>(c)));
  }
  lay_validation(layout_, validation_fraction_);
}

void ArraySource::check_features(const hdf5::Dataset& dataset, int64_t samples) const {
  const auto& shape = dataset.shape();
  if (shape.empty() || shape.front() != samples) {
    refuse(fmt::format("{} samples but {} labels", shape.empty() ? 1 : shape.front(), samples),
           dataset, "every sample needs a label");
  }
  if (!std::equal(shape.begin() + 1, shape.end(), extents_.begin(), extents_.end())) {
    refuse("the samples have another shape than those of the first client", dataset,
           "ragged arrays cannot be trained on");
  }
  if (layout_.storage == Storage::kByte ? !has_bytes(dataset) : !has_numbers(dataset)) {
    refuse("the samples have another type than those of the first client", dataset,
           "store all clients' features in one type");
  }
}

// Channels last becomes channels first.
template <class T>
void ArraySource::read_samples(const hdf5::Dataset& dataset, T* out) {
  if (extents_.size() != 3 || extents_[2] == 1) return dataset.read(out);
  scratch_.resize(static_cast<std::size_t>(dataset.size()) * sizeof(T));
  T* in = reinterpret_cast<T*>(scratch_.data());
  dataset.read(in);
  const int64_t channels = extents_[2];
  const int64_t pixels = extents_[0] * extents_[1];
  for (int64_t i = 0; i < dataset.shape().front(); ++i) {
    for (int64_t p = 0; p < pixels; ++p) {
      for (int64_t k = 0; k < channels; ++k) out[k * pixels + p] = *in++;
    }
    out += channels * pixels;
  }
}

void ArraySource::write_part(const std::optional<hdf5::Dataset>& dataset, int64_t begin,
                             int64_t end, const SampleArrays& out) {
  if (!dataset) return;
  check_features(*dataset, end - begin);
  std::byte* place = out.features + begin * layout_.sample_bytes();
  if (layout_.storage == Storage::kByte) {
    return read_samples(*dataset, reinterpret_cast<uint8_t*>(place));
  }
  auto* values = reinterpret_cast<float*>(place);
  read_samples(*dataset, values);
  const float* last = values + dataset->size();
  const float* bad =
      std::find_if_not<const float*>(values, last, [](float x) { return std::isfinite(x); });
  if (bad == last) return;
  const int64_t sample = (bad - values) / std::max<int64_t>(1, layout_.sample_values());
  refuse(fmt::format("sample {} has a feature that is not finite", sample), *dataset,
         "remove the sample");
}

void ArraySource::write_features(const SampleArrays& out) {
  for (int64_t c = 0; c < files_->clients(); ++c) {
    const ClientRanges& own = layout_.clients[static_cast<std::size_t>(c)];
    const int64_t train_end = files_->has_test() ? own.test_begin() : own.end;
    write_part(files_->dataset(0, c, features_), own.begin, train_end, out);
    write_part(files_->dataset(1, c, features_), train_end, own.end, out);
  }
}

// ---- texts ----

class TffTexts final : public TextReader {
 public:
  TffTexts(std::unique_ptr<TffPair> files, std::string name)
      : files_(std::move(files)), name_(std::move(name)) {}

  int64_t clients() const override { return files_->clients(); }
  std::string name(int64_t client) const override { return files_->name(client); }
  bool has_test() const override { return files_->has_test(); }

  ClientTexts read(int64_t client) override {
    return read_input([&] {
      ClientTexts texts;
      texts.train = read_part(files_->dataset(0, client, name_), texts.where);
      texts.test = read_part(files_->dataset(1, client, name_), texts.where);
      return texts;
    });
  }

 private:
  static std::vector<std::string> read_part(const std::optional<hdf5::Dataset>& dataset,
                                            std::string& where) {
    if (!dataset) return {};
    where = dataset->file();
    if (!has_texts(*dataset)) {
      refuse("texts are expected, these are none", *dataset, "set data.feature-column");
    }
    return dataset->texts();
  }

  std::unique_ptr<TffPair> files_;
  std::string name_;
};

// ---- layouts ----

// The features' dataset of a known layout: the first of these that a client has.
constexpr const char* kLayouts[] = {"pixels", "image", "snippets", "tokens", "title"};
constexpr const char* kWords[] = {"tokens", "title"};

std::string find_features(const TffFile& file, const std::string& given) {
  if (!given.empty()) return given;
  const std::vector<std::string> names = file.names(0);
  for (const char* name : kLayouts) {
    if (std::ranges::count(names, name) > 0) return name;
  }
  throw InvalidArgument(
      fmt::format("unknown layout: no client has {}", fmt::join(kLayouts, ", ")), "data.path",
      fmt::format("set data.feature-column; the first client has: {}", fmt::join(names, ", ")));
}

// Have the texts labels of their own, which are texts too? Without, they predict their next token.
bool has_tags(const TffFile& file, const std::string& features, const std::string& label) {
  if (label == DataOptions().label_column) return false;
  if (std::ranges::count(file.names(0), label) > 0 && has_texts(file.dataset(0, label)))
    return true;
  throw InvalidArgument(
      fmt::format("{} are texts, which predict their own next token: {} is no label of theirs",
                  features, label),
      "data.label-column", "leave it out; tags predicts the tags of Stack Overflow's posts");
}

}  // namespace

std::unique_ptr<ClientSource> make_tff_source(const DataOptions& data, uint64_t seed) {
  std::unique_ptr<TffPair> files;
  std::string features;
  bool text = false, tags = false;
  read_input([&] {
    files = std::make_unique<TffPair>(data.path, data.test_path);
    features = find_features(files->train_file(), data.feature_column);
    text = has_texts(files->train_file().dataset(0, features));
    tags = text && has_tags(files->train_file(), features, data.label_column);
  });
  if (!text) return std::make_unique<ArraySource>(std::move(files), features, data, seed);
  if (tags) return make_tag_source(std::move(files), features, data, seed);
  const bool words = std::ranges::count(kWords, features) > 0;
  return make_token_source(std::make_unique<TffTexts>(std::move(files), features),
                           words ? make_word_vocabulary(data.vocabulary_size)
                                 : make_character_vocabulary(data.vocabulary),
                           data);
}

}  // namespace hanse
