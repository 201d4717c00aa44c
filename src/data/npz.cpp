// NumPy's NPZ files; data/README.md has the grammar.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "channels.hpp"
#include "client_source.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/data/dataset.hpp"
#include "input_file.hpp"
#include "npy_array.hpp"

namespace hanse {

namespace {

// The arrays of a file by their names.
class NpzFile {
 public:
  explicit NpzFile(const std::string& path)
      : source_{path, "NPZ file", "write it by numpy.savez(path, x=x, y=y, client=client)"},
        text_(path),
        members_(zip_directory(text_.view(), source_)) {}

  bool has(const std::string& name) const { return find(name) != members_.end(); }

  // Into `place`, since the array stays where it is. Throws InvalidArgument: there is none, or it
  // is not one that is read.
  NpyArray& open(const std::string& name, std::optional<NpyArray>& place) const {
    const auto member = find(name);
    if (member == members_.end()) {
      std::vector<std::string_view> names;
      for (const ZipMember& other : members_) names.push_back(other.name);
      throw InvalidArgument(
          fmt::format("the file has no array {}; it has: {}", name, fmt::join(names, ", ")),
          source_.path, source_.hint);
    }
    return place.emplace(text_.view(), *member, source_,
                         fmt::format("{}, array {}", source_.path, name));
  }

 private:
  std::vector<ZipMember>::const_iterator find(const std::string& name) const {
    return std::ranges::find(members_, name + ".npy", &ZipMember::name);
  }

  ZipSource source_;
  InputText text_;
  std::vector<ZipMember> members_;
};

// [n, h, w] are grey images; [n, h, w, c] with 1 or 3 channels are turned to [n, c, h, w], which
// other arrays of that many extents are already.
bool has_channels_last(const std::vector<int64_t>& all) {
  const auto is_channels = [](int64_t extent) { return extent == 1 || extent == 3; };
  return all.size() == 4 && is_channels(all[3]) && !is_channels(all[1]);
}

std::vector<int64_t> shape_of_sample(const std::vector<int64_t>& all) {
  if (has_channels_last(all)) return {all[3], all[1], all[2]};
  std::vector<int64_t> shape(all.begin() + 1, all.end());
  if (shape.empty()) return {1};
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  return shape;
}

// Values of type T, channels last, to channels first.
template <class T>
void turn_channels(const std::vector<std::byte>& sample, int64_t channels, std::byte* out) {
  put_channels_first(reinterpret_cast<const T*>(sample.data()), channels,
                     std::ssize(sample) / (channels * int64_t{sizeof(T)}),
                     reinterpret_cast<T*>(out));
}

void read_features(NpyArray& x, Dataset& dataset) {
  if (x.is_text()) x.refuse("x holds texts", "samples are numbers");
  if (x.shape().empty()) x.refuse("x is one number", "x has the shape [samples, ...]");
  dataset.shape = shape_of_sample(x.shape());
  dataset.storage = x.is_bytes() ? Storage::kByte : Storage::kFloat;
  const int64_t samples = x.shape().front(), values = dataset.sample_values();
  require_memory(samples * dataset.sample_bytes(), "the samples take", x.where(), "");
  dataset.features.resize(to_index(samples * dataset.sample_bytes()));
  std::byte* out = dataset.features.data();
  const auto read = [&](std::byte* place, int64_t count) {
    if (x.is_bytes()) return x.read_bytes(place, count);
    x.read_floats(reinterpret_cast<float*>(place), count);
  };
  if (!has_channels_last(x.shape())) {
    for (int64_t i = 0; i < samples; ++i) read(out + i * dataset.sample_bytes(), values);
    return;
  }
  std::vector<std::byte> sample(to_index(dataset.sample_bytes()));
  for (int64_t i = 0; i < samples; ++i) {
    read(sample.data(), values);
    const auto turn = x.is_bytes() ? turn_channels<uint8_t> : turn_channels<float>;
    turn(sample, dataset.shape[0], out + i * dataset.sample_bytes());
  }
}

// One value for each sample.
void require_line(const NpyArray& array, int64_t samples) {
  const auto& shape = array.shape();
  const bool is_line = shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  if (is_line && shape[0] == samples) return;
  array.refuse(fmt::format("its shape is ({}), x has {} samples", fmt::join(shape, ", "), samples),
               "it has one value for each sample");
}

std::string name_of(int64_t value) { return std::to_string(value); }
std::string name_of(const std::string& value) { return value; }

// The place of each value among the distinct ones, sorted, which become the names.
template <class T, class Number>
void number_values(const std::vector<T>& values, std::vector<Number>& numbers,
                   std::vector<std::string>& names) {
  std::vector<T> distinct = values;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const T& value : values) {
    numbers.push_back(
        static_cast<Number>(std::ranges::lower_bound(distinct, value) - distinct.begin()));
  }
  for (const T& value : distinct) names.push_back(name_of(value));
}

template <class Number>
void number_array(NpyArray& array, std::vector<Number>& numbers, std::vector<std::string>& names) {
  if (array.is_text()) {
    number_values(array.texts(), numbers, names);
    if (names.front().empty())
      array.refuse("a text is empty", "give every class and client a name");
  } else {
    number_values(array.integers(), numbers, names);
  }
}

constexpr const char* kRowsHint = "y has the shape [samples, positions]";

// Classes are numbers from 0; -1: the position has none.
void read_sequences(NpyArray& y, Dataset& dataset) {
  if (y.is_text() || y.kind() == 'f') {
    y.refuse("classes of positions are integers, these are not", "number the classes from 0");
  }
  if (dataset.label_values != dataset.sample_values()) {
    y.refuse(fmt::format("a sample has {} labels and {} positions", dataset.label_values,
                         dataset.sample_values()),
             kRowsHint);
  }
  int64_t place = 0, labelled = 0;
  for (const int64_t label : y.integers()) {
    if (label < -1 || label >= kMostClasses) {
      y.refuse(fmt::format("the label {} is no class", label), "classes count from 0; -1: none");
    }
    dataset.labels.push_back(static_cast<int32_t>(label));
    dataset.classes = std::max(dataset.classes, label + 1);
    labelled = (place % dataset.label_values == 0 ? 0 : labelled) + (label >= 0 ? 1 : 0);
    if (++place % dataset.label_values == 0 && labelled == 0) {
      y.refuse(
          fmt::format("no position of sample {} has a label", place / dataset.label_values - 1),
          "leave such samples out");
    }
  }
}

// y of shape [samples, values]: several targets or labels a sample, or a class a position.
void read_rows(NpyArray& y, const std::string& task, Dataset& dataset) {
  dataset.label_values = y.shape()[1];
  if (task == "sequence") return read_sequences(y, dataset);
  dataset.multi_label = task == "classification";
  if (y.is_text()) y.refuse("y holds texts", "several labels a sample are numbers");
  dataset.targets.resize(to_index(y.size()));
  y.read_floats(dataset.targets.data(), y.size());
  if (!dataset.multi_label) return;
  const auto bad = std::ranges::find_if(dataset.targets, [](float v) { return v != 0 && v != 1; });
  if (bad == dataset.targets.end()) return;
  y.refuse(fmt::format("sample {} has {} among its labels, which are 0 or 1, one a class",
                       (bad - dataset.targets.begin()) / dataset.label_values, *bad),
           "set data.task = regression for numbers, or sequence for a class of each position");
}

void read_targets(NpyArray& y, const std::string& task, int64_t samples, Dataset& dataset) {
  const bool rows = y.shape().size() == 2 && (y.shape()[1] > 1 || task == "sequence");
  if (rows && y.shape()[0] == samples && y.shape()[1] > 0) return read_rows(y, task, dataset);
  require_line(y, samples);
  if (task == "sequence") y.refuse("a sequence has a class for each of its positions", kRowsHint);
  if (task == "regression") {
    if (y.is_text()) y.refuse("y holds texts", "data.task = classification makes classes of them");
    dataset.targets.resize(to_index(y.size()));
    return y.read_floats(dataset.targets.data(), y.size());
  }
  if (y.kind() == 'f') {
    y.refuse("labels are integers or texts, these are floating-point numbers",
             "save y.astype('int64'), or set data.task = regression");
  }
  number_array(y, dataset.labels, dataset.class_names);
  dataset.classes = std::ssize(dataset.class_names);
  dataset.class_names = without_numbers(std::move(dataset.class_names));
}

}  // namespace

Dataset read_npz(const std::string& path, const std::string& task) {
  const NpzFile file(path);
  Dataset dataset;
  std::optional<NpyArray> array;
  read_features(file.open("x", array), dataset);
  const int64_t samples = array->shape().front();
  NpyArray& y = file.open("y", array);
  read_targets(y, task, samples, dataset);
  if (!file.has("client")) return dataset;
  NpyArray& client = file.open("client", array);
  require_line(client, samples);
  if (client.kind() == 'f') {
    client.refuse("clients are named by floating-point numbers", "save client.astype('int64')");
  }
  number_array(client, dataset.groups, dataset.group_names);
  return dataset;
}

}  // namespace hanse
