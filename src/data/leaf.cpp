// LEAF's folders of JSON files; data/README.md has the grammar.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client_source.hpp"
#include "file_signature.hpp"
#include "hanse/base/error.hpp"
#include "input_file.hpp"
#include "token_storage.hpp"
#include "vocabulary.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormatHint = "data/README.md has the format";
constexpr const char* kParts[] = {"train", "test"};

// A sample or a label of a user.
struct LeafItem {
  bool is_label = false;
  bool has_text = false;
  std::vector<double> numbers;
  std::string text;  // all texts of it, joined
};

// One file: {"users": [...], "num_samples": [...], "user_data": {USER: {"x": [...], "y": [...]}}};
// or FLUTE's, {USER: {"x": [...]}} or {USER: [...]} with "user_data_label": {USER: [...]}. A sample
// is a number, a text or (nested) arrays of them. Other keys are passed over. The parser follows
// the path of keys: SECTION, in user_data USER, then x or y; inside, the depth of arrays.
class LeafFile final : public nlohmann::json_sax<json> {
 public:
  // Gets the samples and labels in the order of the file.
  using Visitor = std::function<void(const std::string& user, const LeafItem& item)>;

  // Reads the file. Throws InvalidArgument with its path: not JSON, cut off, none of these.
  // Cost: one pass; the file is mapped, and only the lists beside the data are kept.
  LeafFile(const std::string& path, const Visitor& visitor) : path_(path), visitor_(visitor) {
    const InputText text(path);
    if (text.view().empty()) throw InvalidArgument("the file is empty", path, "make it again");
    require_text(text.view(), path, "JSON");
    json::sax_parse(text.view(), this);
    if (!found_data_) {
      throw InvalidArgument("there is no \"user_data\" with a user", path,
                            "expected LEAF's JSON; data/README.md has the format");
    }
  }

  const std::vector<std::string>& users() const { return users_; }
  const std::vector<int64_t>& num_samples() const { return num_samples_; }

  bool start_object(std::size_t) override {
    ++objects_;
    if (field_ != Field::kNone) refuse("an object stands where a number or text is expected");
    return true;
  }
  bool key(std::string& name) override {
    if (objects_ == 1) {
      section_ = name;
    } else if (objects_ == 2 && holds_users()) {
      user_ = name;
      found_data_ = true;
    } else if (objects_ == 3 && section_ == "user_data") {
      entry_ = name;
    }
    return true;
  }
  bool end_object() override {
    --objects_;
    entry_.clear();
    return true;
  }
  bool start_array(std::size_t) override {
    if (arrays_++ == 0) field_ = field_here();
    return true;
  }
  bool end_array() override {
    if (--arrays_ == 0) field_ = Field::kNone;
    if (arrays_ == 1) end_item();
    return true;
  }
  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a truth value"); }
  bool binary(json::binary_t&) override { return scalar("binary data"); }
  bool number_integer(json::number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(json::number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(json::number_float_t value, const std::string&) override {
    return number(value);
  }
  bool string(std::string& value) override {
    if (holds_values()) {
      item_.text += value;
      item_.has_text = true;
    }
    if (field_ == Field::kUsers) users_.push_back(value);
    if (arrays_ == 1) end_item();
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const json::exception& error) override {
    std::string reason = error.what();
    const auto colon = reason.find("syntax error");
    if (colon != std::string::npos) reason = reason.substr(colon);
    throw InvalidArgument("not JSON, or cut off: " + reason, fmt::format("{}, byte {}", path_, at),
                          "the file is incomplete or corrupt; make it again");
  }

 private:
  enum class Field { kNone, kFeatures, kLabels, kUsers, kCounts };

  bool holds_users() const { return section_ == "user_data" || section_ == "user_data_label"; }
  Field field_here() const {
    if (objects_ == 1 && section_ == "users") return Field::kUsers;
    if (objects_ == 1 && section_ == "num_samples") return Field::kCounts;
    if (objects_ == 2 && section_ == "user_data_label") return Field::kLabels;
    if (objects_ == 2 && section_ == "user_data") return Field::kFeatures;
    if (objects_ == 3 && entry_ == "x") return Field::kFeatures;
    if (objects_ == 3 && entry_ == "y") return Field::kLabels;
    return Field::kNone;
  }
  bool holds_values() const { return field_ == Field::kFeatures || field_ == Field::kLabels; }
  bool number(double value) {
    if (holds_values()) item_.numbers.push_back(value);
    if (field_ == Field::kCounts) {
      if (!(value >= 0 && value < 1e15)) refuse(fmt::format("{} is no number of samples", value));
      num_samples_.push_back(static_cast<int64_t>(value));
    }
    if (arrays_ == 1) end_item();
    return true;
  }
  bool scalar(const char* what) {
    if (field_ != Field::kNone) refuse(fmt::format("{} stands where a number is expected", what));
    return true;
  }
  // A sample or label is an element of the outermost array.
  void end_item() {
    if (!holds_values()) return;
    item_.is_label = field_ == Field::kLabels;
    visitor_(user_, item_);
    item_.numbers.clear();
    item_.text.clear();
    item_.has_text = false;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument(what, fmt::format("{}, user '{}'", path_, user_), kFormatHint);
  }

  const std::string& path_;
  const Visitor& visitor_;
  std::vector<std::string> users_;
  std::vector<int64_t> num_samples_;
  LeafItem item_;        // the one in progress
  int64_t objects_ = 0;  // open ones
  int64_t arrays_ = 0;
  std::string section_, user_, entry_;
  Field field_ = Field::kNone;  // of the open array
  bool found_data_ = false;
};

// FOLDER/*.json in the order of their names; empty when the folder is not there.
std::vector<std::string> json_files(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class LeafSource final : public ClientSource {
 public:
  LeafSource(const DataOptions& data, uint64_t seed)
      : folder_(data.path),
        seed_(seed),
        validation_fraction_(data.validation_fraction),
        vocabulary_(make_character_vocabulary(data.vocabulary)) {
    for (int part : {0, 1}) files_[part] = json_files(fs::path(folder_) / kParts[part]);
    if (files_[0].empty() && files_[1].empty()) files_[0] = json_files(folder_);
    if (files_[0].empty()) {
      throw InvalidArgument("there is no *.json in the folder's train", folder_,
                            "data.path is a folder with train/*.json and test/*.json");
    }
    test_fraction_ = files_[1].empty() ? data.test_fraction : 0;
    survey();
    vocabulary_->freeze();
    check_counts();
    describe_samples(data);
    lay_users_out();
  }

  void write(const SampleArrays& out) override {
    for (int part = 0; part < 2; ++part) {
      for (const std::string& file : files_[part]) {
        LeafFile(file, [&](const std::string& name, const LeafItem& item) {
          write_item(user(name).parts[part], item, out);
        });
      }
    }
    split_clients(layout_, test_fraction_, validation_fraction_, seed_, out);
  }

 private:
  // Samples and labels of one user in train/ (0) or test/ (1).
  struct Count {
    int64_t samples = 0;
    int64_t labels = 0;
    int64_t promised = -1;    // by num_samples
    int64_t next_sample = 0;  // where they are written
    int64_t next_label = 0;
  };
  struct User {
    std::string name;
    Count parts[2];
  };

  // Items of one user mostly follow each other.
  User& user(const std::string& name) {
    if (last_ < users_.size() && users_[last_].name == name) return users_[last_];
    const auto [entry, is_new] = index_.try_emplace(name, users_.size());
    if (is_new) users_.push_back({.name = name, .parts = {}});
    last_ = entry->second;
    return users_[last_];
  }

  void survey();
  void learn_sample(const LeafItem& item, Count& count);
  void learn_label(const LeafItem& item, Count& count);
  std::string where() const { return fmt::format("{}, user '{}'", reading_, users_[last_].name); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument(what, where(), kFormatHint);
  }
  void check_counts() const;
  void describe_samples(const DataOptions& data);
  void lay_users_out();
  const std::vector<int32_t>& encode(const LeafItem& item) {
    tokens_.clear();
    vocabulary_->encode(item.text, folder_, tokens_);
    return tokens_;
  }
  void write_item(Count& count, const LeafItem& item, const SampleArrays& out);

  std::string folder_;
  uint64_t seed_;
  double validation_fraction_;
  std::unique_ptr<Vocabulary> vocabulary_;
  double test_fraction_ = 0;
  std::vector<std::string> files_[2];  // of train/ and test/
  std::string reading_;                // the file
  std::vector<User> users_;
  std::unordered_map<std::string, std::size_t> index_;  // name: place in users_
  std::size_t last_ = 0;                                // the user found last
  int64_t values_ = -1;                                 // numbers or characters of one sample
  bool text_features_ = false;
  bool text_labels_ = false;
  int64_t classes_ = 0;  // of numeric labels
  std::vector<int32_t> tokens_;
};

// First pass: who has how much, and whether all of it is alike.
void LeafSource::survey() {
  for (int part : {0, 1}) {
    for (const std::string& file : files_[part]) {
      reading_ = file;
      const LeafFile read(file, [&](const std::string& name, const LeafItem& item) {
        Count& count = user(name).parts[part];
        item.is_label ? learn_label(item, count) : learn_sample(item, count);
      });
      const auto& names = read.users();
      const auto& numbers = read.num_samples();
      if (names.size() != numbers.size()) {
        const auto what = fmt::format("{} users but {} num_samples", names.size(), numbers.size());
        throw InvalidArgument(what, file, kFormatHint);
      }
      for (std::size_t i = 0; i < names.size(); ++i) {
        Count& count = user(names[i]).parts[part];
        count.promised = std::max<int64_t>(count.promised, 0) + numbers[i];
      }
    }
  }
}

void LeafSource::learn_sample(const LeafItem& item, Count& count) {
  if (values_ < 0) text_features_ = item.numbers.empty();
  for (const double value : item.numbers) {
    if (!std::isfinite(static_cast<float>(value))) refuse("a feature is not finite in float32");
  }
  if (text_features_ ? !item.numbers.empty() : item.has_text) {
    refuse("samples are numbers here and texts there");
  }
  auto values = std::ssize(item.numbers);
  if (item.has_text) values += vocabulary_->count(item.text, where());
  if (values_ < 0) values_ = values;
  if (values != values_ || values == 0) {
    refuse(fmt::format("sample {} has {} values, the first of all has {}", count.samples, values,
                       values_));
  }
  ++count.samples;
}

void LeafSource::learn_label(const LeafItem& item, Count& count) {
  auto values = std::ssize(item.numbers);
  for (const double value : item.numbers) {
    if (value != std::floor(value) || value < 0 || value >= kMostClasses) {
      refuse(fmt::format("the label {} is no class", value));
    }
    classes_ = std::max(classes_, static_cast<int64_t>(value) + 1);
  }
  if (item.has_text) values += vocabulary_->count(item.text, where());
  text_labels_ = text_labels_ || item.has_text;
  if (values != 1) refuse(fmt::format("a label has {} values, not one", values));
  ++count.labels;
}

void LeafSource::check_counts() const {
  for (const User& user : users_) {
    for (int part = 0; part < 2; ++part) {
      const Count& count = user.parts[part];
      const auto where = fmt::format("{}/{}, user '{}'", folder_, kParts[part], user.name);
      if (count.samples != count.labels) {
        throw InvalidArgument(fmt::format("{} samples but {} labels", count.samples, count.labels),
                              where, "every sample needs a label, in \"y\" or user_data_label");
      }
      if (count.promised >= 0 && count.promised != count.samples) {
        throw InvalidArgument(
            fmt::format("{} samples, num_samples promises {}", count.samples, count.promised),
            where, "the file is incomplete; make it again");
      }
    }
  }
}

void LeafSource::describe_samples(const DataOptions& data) {
  if (values_ < 0) throw InvalidArgument("there is no sample", folder_, kFormatHint);
  if (text_labels_ && (!text_features_ || classes_ > 0)) {
    throw InvalidArgument("labels are texts where samples or other labels are numbers", folder_,
                          kFormatHint);
  }
  layout_.classes = text_labels_ ? vocabulary_->size() : classes_;
  layout_.storage = text_features_ ? token_storage(vocabulary_->size()) : Storage::kFloat;
  const bool image =
      !text_features_ && ClientLayout{.shape = data.shape}.sample_values() == values_;
  layout_.shape = image ? data.shape : std::vector<int64_t>{values_};
}

void LeafSource::lay_users_out() {
  std::vector<int64_t> train, test;
  for (const User& user : users_) {
    train.push_back(user.parts[0].samples);
    test.push_back(user.parts[1].samples);
  }
  const auto order = lay_out(layout_, train, test, test_fraction_);
  if (std::ssize(order) == layout_.held_out) {
    throw InvalidArgument("no user has a training sample", folder_, kFormatHint);
  }
  for (std::size_t c = 0; c < order.size(); ++c) {
    layout_.client_names.push_back(users_[order[c]].name);
    auto& [train_part, test_part] = users_[order[c]].parts;
    train_part.next_sample = train_part.next_label = layout_.clients[c].begin;
    test_part.next_sample = test_part.next_label = layout_.clients[c].train_end;
  }
  lay_validation(layout_, validation_fraction_);
}

// Second pass: every value to its place.
void LeafSource::write_item(Count& count, const LeafItem& item, const SampleArrays& out) {
  if (item.is_label) {
    const int32_t label =
        text_labels_ ? encode(item).front() : static_cast<int32_t>(item.numbers.front());
    out.labels[count.next_label++] = label;
    return;
  }
  std::byte* place = out.features + count.next_sample++ * layout_.sample_bytes();
  if (!text_features_) {
    auto* values = reinterpret_cast<float*>(place);
    for (const double value : item.numbers) *values++ = static_cast<float>(value);
    return;
  }
  write_tokens(layout_.storage, place, [&](auto* to) { std::ranges::copy(encode(item), to); });
}

}  // namespace

std::unique_ptr<ClientSource> make_leaf_source(const DataOptions& data, uint64_t seed) {
  return std::make_unique<LeafSource>(data, seed);
}

}  // namespace hanse
