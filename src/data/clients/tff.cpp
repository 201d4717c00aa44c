// TensorFlow Federated's data sets; data/clients.md has the grammar.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "client_source.hpp"
#include "clients/tff_file.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "rounded_numbers.hpp"
#include "text_source.hpp"

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

// The first client with samples stands for a file: the types of an empty one do not count.
struct Example {
  int64_t client = -1;
  std::vector<std::string> names;  // of its datasets
  std::string features;
  bool is_text = false;
};

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
  ArraySource(std::unique_ptr<TffPair> files, const Example& example, const DataOptions& data,
              uint64_t seed)
      : files_(std::move(files)),
        features_(example.features),
        path_(data.path),
        label_(data.label_column),
        test_fraction_(files_->has_test() ? 0 : data.test_fraction),
        validation_fraction_(data.validation_fraction),
        seed_(seed) {
    layout_.unread = unread_datasets(example.names, {features_, label_});
    read_input([&] { survey(); });
  }

  void write(const SampleArrays& out) override {
    std::copy(labels_.begin(), labels_.end(), out.labels);
    read_input([&] { write_features(out); });
    split_clients(layout_, test_fraction_, validation_fraction_, seed_, out);
  }

 private:
  void survey();
  int64_t read_part(int part, int64_t client);
  int64_t read_labels(const std::optional<hdf5::Dataset>& found);
  void order_labels(const std::vector<int64_t>& counts);
  void learn_layout(const hdf5::Dataset& dataset);
  void write_features(const SampleArrays& out);
  void write_part(const std::optional<hdf5::Dataset>& dataset, int64_t begin, int64_t end,
                  const SampleArrays& out);
  void check_features(const hdf5::Dataset& dataset, int64_t samples) const;
  void count_rounded(const hdf5::Dataset& dataset);
  void warn_of_rounded() const;
  template <class T>
  void read_samples(const hdf5::Dataset& dataset, T* out);

  std::unique_ptr<TffPair> files_;
  std::string features_;
  std::string path_;
  std::string label_;
  double test_fraction_, validation_fraction_;
  uint64_t seed_;
  std::vector<int64_t> extents_;    // of one sample, in the file
  std::vector<int32_t> labels_;     // of all samples, in the layout's order
  std::vector<std::size_t> order_;  // the files' clients, as laid out
  RoundedNumbers rounded_;
  std::vector<std::byte> scratch_;
};

// Reads labels and their number; a client without labels has no samples either.
int64_t ArraySource::read_part(int part, int64_t client) {
  const int64_t labels = read_labels(files_->dataset(part, client, label_));
  if (labels > 0) return labels;
  const auto features = files_->dataset(part, client, features_);
  if (features && !features->shape().empty() && features->shape().front() > 0) {
    check_features(*features, 0);
  }
  return 0;
}

// Appends a part's labels and returns their number.
int64_t ArraySource::read_labels(const std::optional<hdf5::Dataset>& found) {
  if (!found || found->size() == 0) return 0;
  const hdf5::Dataset& dataset = *found;
  const auto& shape = dataset.shape();
  if (dataset.type().kind != hdf5::Kind::kInteger) {
    refuse("labels are integers, these are not", dataset,
           "store them as integers, such as label.astype('int32'), or set data.label-column");
  }
  if (shape.size() == 2 && shape[1] > 1) {
    refuse(fmt::format("a sample has {} labels, not one", shape[1]), dataset,
           "store the class of each sample, label.argmax(axis=1) where they are one-hot: labels "
           "have the extents [n] or [n, 1]");
  }
  if (shape.empty() || shape.size() > 2) {
    refuse("labels have the extents [n] or [n, 1], these have others", dataset,
           "set data.label-column");
  }
  for (const int64_t label : dataset.values<int64_t>()) {
    if (label < 0 || label >= kMostClasses) {
      refuse(fmt::format("the label {} is no class", label), dataset, "classes count from 0");
    }
    layout_.classes = std::max(layout_.classes, label + 1);
    labels_.push_back(static_cast<int32_t>(label));
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
  std::vector<int64_t> train, test, counts;
  for (int64_t c = 0; c < files_->clients(); ++c) {
    train.push_back(read_part(0, c));
    test.push_back(read_part(1, c));
    counts.push_back(train.back() + test.back());
    if (layout_.shape.empty() && train.back() > 0) {
      learn_layout(*files_->dataset(0, c, features_));
    }
  }
  order_ = lay_out(layout_, train, test, test_fraction_);
  if (std::ssize(order_) == layout_.held_out) {
    throw InvalidArgument("no client has a training sample", "data.path",
                          "one client at least needs one");
  }
  if (const auto empty = std::ssize(train) - std::ssize(order_); empty > 0) {
    layout_.unread.push_back(counted(empty, "client without samples", "clients without samples"));
  }
  for (const std::size_t c : order_) {
    layout_.client_names.push_back(files_->name(static_cast<int64_t>(c)));
  }
  for (std::size_t c = 0; c < train.size(); ++c) {
    if (train[c] + test[c] == 0) layout_.left_out.push_back(files_->name(static_cast<int64_t>(c)));
  }
  order_labels(counts);
  lay_validation(layout_, validation_fraction_);
}

// Reorders labels from the files' order of clients, with `counts` each, to the layout's.
void ArraySource::order_labels(const std::vector<int64_t>& counts) {
  std::vector<int64_t> begins(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), int64_t{0});
  std::vector<int32_t> ordered;
  ordered.reserve(labels_.size());
  for (const std::size_t c : order_) {
    const auto first = labels_.begin() + begins[c];
    ordered.insert(ordered.end(), first, first + counts[c]);
  }
  labels_ = std::move(ordered);
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

// Turns channels last into channels first.
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
  if (!dataset || (dataset->size() == 0 && begin == end)) return;
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
  if (bad == last) return count_rounded(*dataset);
  const int64_t sample = (bad - values) / std::max<int64_t>(1, layout_.sample_values());
  refuse(fmt::format("sample {} has the feature {}, which is not finite in float32", sample,
                     number_text(*bad)),
         *dataset, "leave the sample out, or fill the value in");
}

// Counts in types that hold more than float32 does.
void ArraySource::count_rounded(const hdf5::Dataset& dataset) {
  const auto [kind, bytes, is_signed] = dataset.type();
  int64_t place = 0;
  const auto see = [&](double value) {
    rounded_.see(value, place++ % std::max<int64_t>(1, layout_.sample_values()));
  };
  if (kind == hdf5::Kind::kInteger && bytes >= 4) {
    for (const int64_t value : dataset.values<int64_t>()) see(counted_double(value));
  } else if (kind == hdf5::Kind::kFloat && bytes >= 8) {
    for (const double value : dataset.values<double>()) see(value);
  }
}

void ArraySource::warn_of_rounded() const {
  const std::string text =
      rounded_.text([&](int64_t column) { return column_name(features_, extents_, column); });
  if (text.empty()) return;
  warning(fmt::format("{} ({}); hint: subtract the least value before", text, path_));
}

void ArraySource::write_features(const SampleArrays& out) {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const ClientRanges& own = layout_.clients[i];
    const auto c = static_cast<int64_t>(order_[i]);
    const int64_t train_end = files_->has_test() ? own.test_begin() : own.end;
    write_part(files_->dataset(0, c, features_), own.begin, train_end, out);
    write_part(files_->dataset(1, c, features_), train_end, own.end, out);
  }
  warn_of_rounded();
}

// ---- texts ----

class TffTexts final : public TextReader {
 public:
  TffTexts(std::unique_ptr<TffPair> files, const Example& example)
      : files_(std::move(files)), name_(example.features), names_(example.names) {}

  int64_t clients() const override { return files_->clients(); }
  std::string name(int64_t client) const override { return files_->name(client); }
  bool has_test() const override { return files_->has_test(); }
  std::vector<std::string> unread() const override { return unread_datasets(names_, {name_}); }

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
    if (!dataset || dataset->size() == 0) return {};
    where = dataset->file();
    if (!has_texts(*dataset)) {
      refuse("texts are expected, these are none", *dataset, "set data.feature-column");
    }
    return dataset->texts();
  }

  std::unique_ptr<TffPair> files_;
  std::string name_;
  std::vector<std::string> names_;
};

// ---- layouts ----

// The features' dataset in known layouts: the first of these that a client has.
constexpr const char* kLayouts[] = {"pixels", "image", "snippets", "tokens", "title"};
constexpr const char* kWords[] = {"tokens", "title"};

std::string find_features(const std::vector<std::string>& names, const std::string& given) {
  if (!given.empty()) return given;
  for (const char* name : kLayouts) {
    if (std::ranges::count(names, name) > 0) return name;
  }
  throw InvalidArgument(
      fmt::format("unknown layout: no client has {}", fmt::join(kLayouts, ", ")), "data.path",
      fmt::format("set data.feature-column; the first client has: {}", fmt::join(names, ", ")));
}

Example find_example(const TffFile& file, const std::string& given) {
  Example last;
  for (int64_t c = 0; c < file.clients(); ++c) {
    std::vector<std::string> names = file.names(c);
    if (names.empty()) continue;
    const std::string features = find_features(names, given);
    const auto dataset = file.dataset(c, features);
    last = {c, std::move(names), features, has_texts(*dataset)};
    if (dataset->size() > 0) break;
  }
  if (last.client >= 0) return last;
  throw InvalidArgument("no client has a dataset", "data.path", "see data/clients.md");
}

// Are there labels for the texts, which are texts too? Otherwise they predict their next token.
bool has_tags(const TffFile& file, const Example& example, const std::string& label) {
  if (label == DataOptions().label_column) return false;
  if (std::ranges::count(example.names, label) > 0 &&
      has_texts(*file.dataset(example.client, label))) {
    return true;
  }
  throw InvalidArgument(
      fmt::format("{} are texts, which predict their own next token: {} is no label of theirs",
                  example.features, label),
      "data.label-column", "leave it out; tags predicts the tags of Stack Overflow's posts");
}

}  // namespace

std::unique_ptr<ClientSource> make_tff_source(const DataOptions& data, uint64_t seed) {
  std::unique_ptr<TffPair> files;
  Example example;
  bool tags = false;
  read_input([&] {
    files = std::make_unique<TffPair>(data.path, data.test_path);
    example = find_example(files->train_file(), data.feature_column);
    tags = example.is_text && has_tags(files->train_file(), example, data.label_column);
  });
  if (!example.is_text) {
    return std::make_unique<ArraySource>(std::move(files), example, data, seed);
  }
  if (tags) return make_tag_source(std::move(files), example.features, example.names, data, seed);
  const bool words = std::ranges::count(kWords, example.features) > 0;
  return make_token_source(std::make_unique<TffTexts>(std::move(files), example),
                           words ? make_word_vocabulary(data.vocabulary_size, data.words)
                                 : make_character_vocabulary(data.vocabulary, data.words),
                           data);
}

}  // namespace hanse
