// NumPy's NPZ files; data/README.md has the grammar.
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arrays/npy_array.hpp"
#include "client_source.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/data/dataset.hpp"
#include "input_file.hpp"
#include "rounded_numbers.hpp"

namespace hanse {

namespace {

constexpr std::array<std::string_view, 3> kArrays = {"x", "y", "client"};
constexpr std::size_t kMostOthers = 8;  // that a line shows

// The arrays of a file by their names.
class NpzFile {
 public:
  explicit NpzFile(const std::string& path)
      : source_{path, "NPZ file", "write it by numpy.savez(path, x=x, y=y, client=client)"},
        text_(path),
        members_(zip_directory(text_.view(), source_)) {
    for (const ZipMember& member : members_) {
      std::string_view name = member.name;
      if (name.ends_with(".npy")) name.remove_suffix(4);
      names_.emplace_back(name);
    }
  }

  bool has(const std::string& name) const { return std::ranges::count(names_, name) > 0; }

  // Makes the array in `place`, because it cannot move. Throws InvalidArgument: none has the name,
  // several have, or its type is not read.
  NpyArray& open(const std::string& name, ArrayUse use, std::optional<NpyArray>& place) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      throw InvalidArgument(
          fmt::format("the file has no array {}; it has: {}", name, fmt::join(names_, ", ")),
          source_.path, source_.hint);
    }
    if (std::ranges::count(names_, name) > 1) {
      throw InvalidArgument(fmt::format("the array {} stands in the file more than once", name),
                            source_.path, "write the file again, with one array of each name");
    }
    return place.emplace(text_.view(), members_[to_index(found - names_.begin())], source_, name,
                         use);
  }

  // "array mean" for each array that is not read.
  std::vector<std::string> unread() const {
    std::vector<std::string> others;
    for (const std::string& name : names_) {
      if (std::ranges::count(kArrays, name) == 0) others.push_back("array " + name);
    }
    if (others.size() > kMostOthers) return {fmt::format("{} other arrays", others.size())};
    return others;
  }

 private:
  ZipSource source_;
  InputText text_;
  std::vector<ZipMember> members_;
  std::vector<std::string> names_;  // of the members, without .npy
};

// [n, h, w] are grey images; [n, h, w, c] with 1 or 3 channels are turned to [n, c, h, w]; other
// arrays of four extents have that order already.
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

// Requires as many values as x has for a sample.
void check_shape(const std::vector<int64_t>& shape, int64_t values) {
  double asked = 1;
  for (const int64_t extent : shape) asked *= static_cast<double>(extent);
  if (asked == static_cast<double>(values)) return;
  throw InvalidArgument(
      fmt::format("the shape {} has {} values, a sample of x {}", shape, asked, values),
      "data.shape", "leave it empty for the shape that x has");
}

// Turns values of type T from channels last to channels first.
template <class T>
void turn_channels(const std::vector<std::byte>& sample, int64_t channels, std::byte* out) {
  put_channels_first(reinterpret_cast<const T*>(sample.data()), channels,
                     std::ssize(sample) / (channels * int64_t{sizeof(T)}),
                     reinterpret_cast<T*>(out));
}

void read_features(NpyArray& x, const std::vector<int64_t>& shape, Dataset& dataset) {
  if (x.is_text()) {
    x.refuse("x holds texts, samples are numbers",
             "save x.astype('float32'), or of words their numbers: "
             "numpy.unique(x, return_inverse=True)[1].reshape(x.shape)");
  }
  if (x.shape().empty()) x.refuse("x is one number", "x has the shape [samples, ...]");
  dataset.shape = shape_of_sample(x.shape());
  dataset.storage = x.is_bytes() ? Storage::kByte : Storage::kFloat;
  const int64_t samples = x.shape().front(), values = dataset.sample_values();
  const bool turns = has_channels_last(x.shape()) && (shape.empty() || shape == dataset.shape);
  if (!shape.empty()) {
    check_shape(shape, values);
    dataset.shape = shape;
  }
  require_memory(samples * dataset.sample_bytes(), "the samples take", x.where(), "");
  dataset.features.resize(to_index(samples * dataset.sample_bytes()));
  std::byte* out = dataset.features.data();
  const auto read = [&](std::byte* place, int64_t count) {
    if (x.is_bytes()) return x.read_bytes(place, count);
    x.read_floats(reinterpret_cast<float*>(place), count);
  };
  if (!turns) {
    for (int64_t i = 0; i < samples; ++i) read(out + i * dataset.sample_bytes(), values);
    return x.warn_of_rounded();
  }
  std::vector<std::byte> sample(to_index(dataset.sample_bytes()));
  for (int64_t i = 0; i < samples; ++i) {
    read(sample.data(), values);
    const auto turn = x.is_bytes() ? turn_channels<uint8_t> : turn_channels<float>;
    turn(sample, dataset.shape[0], out + i * dataset.sample_bytes());
  }
  x.warn_of_rounded();
}

// Requires one value for each sample.
void require_line(const NpyArray& array, int64_t samples) {
  const auto& shape = array.shape();
  const bool is_line = shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  if (is_line && shape[0] == samples) return;
  array.refuse(fmt::format("its shape is ({}), x has {} samples", fmt::join(shape, ", "), samples),
               "it has one value for each sample");
}

std::string name_of(const std::string& value) { return value; }
template <std::integral T>
std::string name_of(T value) {
  return std::to_string(value);
}

// Whole numbers below are exact in a floating-point number of so many bytes.
double exact_below(int64_t bytes) { return std::exp2(bytes == 2 ? 11 : bytes == 4 ? 24 : 53); }

constexpr const char* kLabels = "labels are";
constexpr const char* kClients = "clients are named by";

// Refuses floating-point numbers among labels or clients: says what they hold, and a way out.
[[noreturn]] void refuse_floats(NpyArray& array, const char* whose) {
  const std::vector<double> values = array.numbers<double>();
  const std::string& name = array.name();
  const bool are_labels = whose == kLabels;
  const std::string regression = are_labels ? ", or set data.task = regression" : "";
  const auto refuse = [&](auto found, const char* what, const std::string& hint) {
    array.refuse(fmt::format("{} integers or texts, {} is {}{}", whose,
                             array.element(found - values.begin()), number_text(*found), what),
                 hint);
  };
  const auto fraction =
      std::ranges::find_if(values, [](double v) { return std::isfinite(v) && v != std::floor(v); });
  if (fraction != values.end()) {
    refuse(fraction, "",
           are_labels ? "set data.task = regression for numbers to be predicted"
                      : fmt::format("save {}.astype('str')", name));
  }
  const auto missing = std::ranges::find_if_not(values, [](double v) { return std::isfinite(v); });
  if (missing != values.end()) {
    refuse(missing, ": it is missing",
           fmt::format("leave such samples out of every array: keep = numpy.isfinite({0}), "
                       "then x[keep] and so on, and {0}[keep].astype('int64')",
                       name));
  }
  const double limit = exact_below(array.type().bytes);
  const auto large = std::ranges::find_if(values, [&](double v) { return std::abs(v) >= limit; });
  if (large != values.end()) {
    refuse(large,
           fmt::format(", where float{} does not hold every whole number", array.type().bytes * 8)
               .c_str(),
           "save them as integers from where they come, before they were rounded");
  }
  array.refuse(fmt::format("{} integers or texts, these are floating-point numbers", whose),
               fmt::format("save {}.astype('int64'){}", name, regression));
}

// Replaces each value by its index among the distinct values, sorted, which become the names.
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

// The texts that NumPy and pandas write for missing values.
constexpr std::array<std::string_view, 3> kMissingTexts = {"nan", "NaT", "<NA>"};

// Texts among labels or clients, each with a name.
std::vector<std::string> named_texts(NpyArray& array) {
  std::vector<std::string> texts = array.texts();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto missing = std::ranges::find(kMissingTexts, texts[i]);
    if (!texts[i].empty() && missing == kMissingTexts.end()) continue;
    array.refuse(fmt::format("{} is {}: it is missing", array.element(static_cast<int64_t>(i)),
                             texts[i].empty() ? "an empty text" : "the text " + texts[i]),
                 fmt::format("fill it in, or leave such samples out of every array: keep = {} != "
                             "'{}', then x[keep] and so on",
                             array.name(), texts[i]));
  }
  if (const auto none = std::ranges::count(texts, "None"); none > 0) {
    warning(
        fmt::format("None is the text of {} values, and counts as a name ({}); hint: where it "
                    "means a missing value, leave such samples out",
                    none, array.where()));
  }
  return texts;
}

// Numbers classes or clients: `whose` says which.
template <class Number>
void number_array(NpyArray& array, const char* whose, std::vector<Number>& numbers,
                  std::vector<std::string>& names) {
  if (array.is_float()) refuse_floats(array, whose);
  if (array.is_text()) {
    number_values(named_texts(array), numbers, names);
  } else if (array.type().kind == 'u') {
    number_values(array.numbers<uint64_t>(), numbers, names);
  } else {
    number_values(array.numbers<int64_t>(), numbers, names);
  }
}

constexpr const char* kRowsHint = "y has the shape [samples, positions]";

// Classes are numbers from 0; -1: the position has none.
template <class T>
void number_positions(const NpyArray& y, const std::vector<T>& labels, Dataset& dataset) {
  int64_t place = 0, labelled = 0;
  for (const T label : labels) {
    if (std::cmp_less(label, -1) || std::cmp_greater_equal(label, kMostClasses)) {
      y.refuse(fmt::format("{} = {} is no class", y.element(place), label),
               "classes count from 0; -1: none");
    }
    dataset.labels.push_back(static_cast<int32_t>(label));
    dataset.classes = std::max(dataset.classes, int64_t{dataset.labels.back()} + 1);
    const bool is_first = place % dataset.label_values == 0;
    labelled = (is_first ? 0 : labelled) + (dataset.labels.back() >= 0 ? 1 : 0);
    if (++place % dataset.label_values == 0 && labelled == 0) {
      y.refuse(
          fmt::format("no position of sample {} has a label", place / dataset.label_values - 1),
          "leave such samples out");
    }
  }
}

void read_sequences(NpyArray& y, Dataset& dataset) {
  if (y.is_text() || y.is_float()) {
    y.refuse("classes of positions are integers, these are not",
             "number the classes from 0, and save y.astype('int64')");
  }
  if (dataset.label_values != dataset.sample_values()) {
    y.refuse(fmt::format("a sample has {} labels and {} positions", dataset.label_values,
                         dataset.sample_values()),
             kRowsHint);
  }
  y.type().kind == 'u' ? number_positions(y, y.numbers<uint64_t>(), dataset)
                       : number_positions(y, y.numbers<int64_t>(), dataset);
}

// One class a sample that is written as several labels would train another loss.
void refuse_one_hot(const NpyArray& y, const Dataset& dataset) {
  for (auto row = dataset.targets.begin(); row != dataset.targets.end();
       row += dataset.label_values) {
    if (std::count(row, row + dataset.label_values, 1.0F) != 1) return;
  }
  y.refuse("every sample has exactly one 1 among its labels: they are one-hot",
           "save y.argmax(axis=1), the class of each sample");
}

// y of shape [samples, values]: several targets or labels a sample, or a class a position.
void read_rows(NpyArray& y, const std::string& task, Dataset& dataset) {
  dataset.label_values = y.shape()[1];
  if (task == "sequence") return read_sequences(y, dataset);
  dataset.multi_label = task == "classification";
  if (y.is_text()) {
    y.refuse("y holds texts, several labels a sample are 0 or 1, one a class",
             "save y.astype('float32') where the texts are numbers");
  }
  dataset.targets.resize(to_index(y.size()));
  y.read_floats(dataset.targets.data(), y.size());
  if (!dataset.multi_label) return y.warn_of_rounded();
  const auto bad = std::ranges::find_if(dataset.targets, [](float v) { return v != 0 && v != 1; });
  if (bad == dataset.targets.end()) return refuse_one_hot(y, dataset);
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
    y.read_floats(dataset.targets.data(), y.size());
    return y.warn_of_rounded();
  }
  number_array(y, kLabels, dataset.labels, dataset.class_names);
  dataset.classes = std::ssize(dataset.class_names);
  dataset.class_names = without_numbers(std::move(dataset.class_names));
}

}  // namespace

Dataset read_npz(const std::string& path, const std::string& task,
                 const std::vector<int64_t>& shape) {
  const NpzFile file(path);
  Dataset dataset;
  std::optional<NpyArray> array;
  read_features(file.open("x", ArrayUse::kNumbers, array), shape, dataset);
  const int64_t samples = array->shape().front();
  const ArrayUse use = task == "regression" ? ArrayUse::kNumbers
                       : task == "sequence" ? ArrayUse::kIntegers
                                            : ArrayUse::kNames;
  read_targets(file.open("y", use, array), task, samples, dataset);
  dataset.unread = file.unread();
  if (!file.has("client")) return dataset;
  NpyArray& client = file.open("client", ArrayUse::kNames, array);
  require_line(client, samples);
  number_array(client, kClients, dataset.groups, dataset.group_names);
  return dataset;
}

}  // namespace hanse
