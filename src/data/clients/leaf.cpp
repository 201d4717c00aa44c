// LEAF's folders of JSON files; data/clients.md has the grammar.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "client_source.hpp"
#include "clients/leaf_file.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "rounded_numbers.hpp"
#include "vocabulary.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

constexpr const char* kParts[] = {"train", "test"};
constexpr const char* kRowHint =
    "make one text of it, or a list of numbers of its words; data/clients.md shows it for Sent140";

// Numbers of skipped files, by kind: "hidden", ".txt".
using OtherFiles = std::map<std::string, int64_t>;

// FOLDER/*.json in the order of their names; empty if the folder is missing.
std::vector<std::string> json_files(const fs::path& folder, OtherFiles& others) {
  std::vector<std::string> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const fs::path& path = entry.path();
    if (entry.is_directory(code)) continue;
    if (path.filename().string().starts_with('.')) {
      ++others["hidden"];
    } else if (path.extension() == ".json") {
      files.push_back(path.string());
    } else {
      ++others[path.has_extension() ? path.extension().string() : "other"];
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Folders beside train/ and test/ with such files: LEAF's own steps, or a part of another name.
std::vector<std::string> other_folders(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    OtherFiles others;
    if (!entry.is_directory(code) || std::ranges::count(kParts, name) > 0) continue;
    if (!json_files(entry.path(), others).empty()) names.push_back("folder " + name);
  }
  std::ranges::sort(names);
  return names;
}

class LeafSource final : public ClientSource {
 public:
  LeafSource(const DataOptions& data, uint64_t seed)
      : folder_(data.path),
        seed_(seed),
        validation_fraction_(data.validation_fraction),
        vocabulary_(make_character_vocabulary(data.vocabulary, data.words)) {
    find_files();
    test_fraction_ = files_[1].empty() ? data.test_fraction : 0;
    survey();
    vocabulary_->freeze();
    if (const auto text = vocabulary_->unread(); !text.empty()) layout_.unread.push_back(text);
    check_counts();
    describe_samples(data);
    lay_users_out();
    warn_of_rounded();
  }

  void write(const SampleArrays& out) override {
    for (int part = 0; part < 2; ++part) {
      for (const std::string& file : files_[part]) {
        read_leaf_file(file, [&](const std::string& name, const LeafItem& item) {
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
    int64_t promised = -1;              // by num_samples
    const std::string* file = nullptr;  // the file that has them
    int64_t next_sample = 0;            // where the next is written
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

  void find_files();
  void survey();
  void learn_item(const std::string& name, const LeafItem& item, int part);
  void learn_sample(const LeafItem& item, Count& count);
  void learn_label(const LeafItem& item, Count& count);
  std::string where() const { return fmt::format("{}, user '{}'", *reading_, users_[last_].name); }
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = kLeafHint) const {
    throw InvalidArgument(what, where(), hint);
  }
  void check_counts() const;
  void describe_samples(const DataOptions& data);
  void lay_users_out();
  void warn_of_rounded() const;
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
  std::vector<std::string> files_[2];     // of train/ and test/
  const std::string* reading_ = nullptr;  // the file
  std::vector<User> users_;
  std::unordered_map<std::string, std::size_t> index_;  // name: place in users_
  std::size_t last_ = 0;                                // the user found last
  int64_t values_ = -1;                                 // numbers or characters of one sample
  bool text_features_ = false;
  bool text_labels_ = false;
  int64_t classes_ = 0;  // of numeric labels
  RoundedNumbers rounded_;
  std::vector<int32_t> tokens_;
};

void LeafSource::find_files() {
  OtherFiles others;
  const fs::path folder(folder_);
  for (int part : {0, 1}) files_[part] = json_files(folder / kParts[part], others);
  if (files_[0].empty() && files_[1].empty()) {
    files_[0] = json_files(folder_, others);
  } else {
    layout_.unread = other_folders(folder);
  }
  if (files_[0].empty()) {
    throw InvalidArgument("there is no *.json in the folder's train", folder_,
                          "data.path is a folder with train/*.json and test/*.json");
  }
  for (const auto& [kind, count] : others) {
    layout_.unread.push_back(counted(count, kind + " file", kind + " files"));
  }
}

// First pass: counts each user's samples and checks that they are alike.
void LeafSource::survey() {
  for (int part : {0, 1}) {
    for (const std::string& file : files_[part]) {
      reading_ = &file;
      const LeafUsers read = read_leaf_file(
          file,
          [&](const std::string& name, const LeafItem& item) { learn_item(name, item, part); });
      for (std::size_t i = 0; i < read.num_samples.size(); ++i) {
        Count& count = user(read.listed[i]).parts[part];
        count.promised = std::max<int64_t>(count.promised, 0) + read.num_samples[i];
      }
      for (const std::string& name : read.with_data) user(name);
    }
  }
}

// A user in two files is most likely a copy.
void LeafSource::learn_item(const std::string& name, const LeafItem& item, int part) {
  Count& count = user(name).parts[part];
  if (count.file && count.file != reading_) {
    refuse(fmt::format("the user has samples in {}, too", *count.file),
           "bring the samples of a user together in one file");
  }
  count.file = reading_;
  item.is_label ? learn_label(item, count) : learn_sample(item, count);
}

void LeafSource::learn_sample(const LeafItem& item, Count& count) {
  if (values_ < 0) text_features_ = item.numbers.empty();
  if (item.texts > 1 || (item.texts > 0 && !item.numbers.empty())) {
    refuse(
        fmt::format("sample {} is a list with {} texts, not one text", count.samples, item.texts),
        kRowHint);
  }
  if (text_features_ ? !item.numbers.empty() : item.texts > 0) {
    refuse("samples are numbers here and texts there");
  }
  for (std::size_t i = 0; i < item.numbers.size(); ++i) {
    const double value = item.numbers[i];
    if (!std::isfinite(static_cast<float>(value))) {
      refuse(fmt::format("value {} of sample {} is {}, not finite in float32", i, count.samples,
                         number_text(value)),
             "divide the values by their size");
    }
    rounded_.see(value, static_cast<int64_t>(i));
  }
  auto values = std::ssize(item.numbers);
  if (item.texts > 0) values += vocabulary_->count(item.text, where());
  if (values_ < 0) values_ = values;
  if (values != values_ || values == 0) {
    refuse(fmt::format("sample {} has {} values, the first of all has {}", count.samples, values,
                       values_));
  }
  ++count.samples;
}

void LeafSource::learn_label(const LeafItem& item, Count& count) {
  auto values = std::ssize(item.numbers);
  if (item.texts > 0) values += vocabulary_->count(item.text, where());
  text_labels_ = text_labels_ || item.texts > 0;
  if (values != 1) {
    refuse(fmt::format("a label has {} values, not one: label {}", values, count.labels),
           "a label is the number of a class, such as numpy.argmax of a row of 0 and 1, or, of "
           "texts, the character that follows");
  }
  for (const double value : item.numbers) {
    if (value != std::floor(value) || value < 0 || value >= kMostClasses) {
      refuse(fmt::format("the label {} is no class: label {}", value, count.labels),
             "classes are whole numbers from 0");
    }
    classes_ = std::max(classes_, static_cast<int64_t>(value) + 1);
  }
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
  if (values_ < 0) throw InvalidArgument("there is no sample", folder_, kLeafHint);
  if (text_labels_ && (!text_features_ || classes_ > 0)) {
    throw InvalidArgument("labels are texts where samples or other labels are numbers", folder_,
                          "write labels as numbers from 0: 4, not \"4\"");
  }
  layout_.classes = text_labels_ ? vocabulary_->size() : classes_;
  if (text_labels_ || text_features_) layout_.record.vocabulary = vocabulary_->learnt();
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
  if (const auto empty = std::ssize(users_) - std::ssize(order); empty > 0) {
    layout_.unread.push_back(counted(empty, "user without samples", "users without samples"));
  }
  if (std::ssize(order) == layout_.held_out) {
    throw InvalidArgument("no user has a training sample", folder_, kLeafHint);
  }
  for (std::size_t c = 0; c < order.size(); ++c) {
    layout_.client_names.push_back(users_[order[c]].name);
    auto& [train_part, test_part] = users_[order[c]].parts;
    train_part.next_sample = train_part.next_label = layout_.clients[c].begin;
    test_part.next_sample = test_part.next_label = layout_.clients[c].train_end;
  }
  lay_validation(layout_, validation_fraction_);
}

void LeafSource::warn_of_rounded() const {
  const auto name = [&](int64_t column) { return fmt::format("value {} of a sample", column); };
  const std::string text = rounded_.text(name);
  if (text.empty()) return;
  warning(fmt::format("{} ({}); hint: subtract the least value before", text, folder_));
}

// Second pass: writes every value to its place.
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
