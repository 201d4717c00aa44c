// LEAF's folders of JSON files; data/README.md has the grammar.
#include "leaf.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "leaf_file.hpp"
#include "vocabulary.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "data/README.md has the format";

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

// Samples and labels of one user in train/ (0) or test/ (1).
struct Count {
  int64_t samples = 0;
  int64_t labels = 0;
  int64_t promised = -1;  // by num_samples
};

struct User {
  std::string name;
  Count parts[2];
};

// What the first pass learns.
struct LeafContents {
  std::vector<User> users;
  std::unordered_map<std::string, std::size_t> index;
  int64_t values = -1;  // numbers or characters of one sample
  bool text_features = false;
  bool text_labels = false;
  int64_t classes = 0;  // of numeric labels
};

// First pass: who has how much, and whether all of it is alike.
class Survey final : public LeafVisitor {
 public:
  Survey(LeafContents& contents, Vocabulary& vocabulary)
      : contents_(contents), vocabulary_(vocabulary) {}

  // What follows stands in this file, of train/ (0) or test/ (1).
  void start(const std::string& path, int part) {
    path_ = &path;
    part_ = part;
  }

  void user(const std::string& name) override {
    const auto [entry, is_new] = contents_.index.emplace(name, contents_.users.size());
    if (is_new) contents_.users.push_back({.name = name, .parts = {}});
    at_ = entry->second;
  }
  void feature(double value) override {
    if (!std::isfinite(static_cast<float>(value))) refuse("a feature is not finite in float32");
    note_kind(false);
    ++values_;
  }
  void feature(const std::string& text) override {
    note_kind(true);
    values_ += vocabulary_.count(text, where());
  }
  void end_sample() override {
    if (contents_.values < 0) contents_.values = values_;
    if (values_ != contents_.values || values_ == 0) {
      refuse(fmt::format("sample {} has {} values, the first of all has {}", count().samples,
                         values_, contents_.values));
    }
    values_ = 0;
    ++count().samples;
  }
  void label(double value) override {
    if (value != std::floor(value) || value < 0 || value > INT32_MAX - 1) {
      refuse(fmt::format("the label {} is no class", value));
    }
    contents_.classes = std::max(contents_.classes, static_cast<int64_t>(value) + 1);
    ++values_;
  }
  void label(const std::string& text) override {
    contents_.text_labels = true;
    values_ += vocabulary_.count(text, where());
  }
  void end_label() override {
    if (values_ != 1) refuse(fmt::format("a label has {} values, not one", values_));
    values_ = 0;
    ++count().labels;
  }

  void promise(const LeafLists& lists) {
    if (lists.users.size() != lists.num_samples.size()) {
      throw InvalidArgument(
          fmt::format("{} users but {} num_samples", lists.users.size(), lists.num_samples.size()),
          *path_, kFormat);
    }
    for (std::size_t i = 0; i < lists.users.size(); ++i) {
      user(lists.users[i]);
      count().promised = std::max<int64_t>(count().promised, 0) + lists.num_samples[i];
    }
  }

 private:
  Count& count() { return contents_.users[at_].parts[part_]; }
  std::string where() const {
    return fmt::format("{}, user '{}'", *path_, contents_.users[at_].name);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument(what, where(), kFormat);
  }
  void note_kind(bool text) {
    if (contents_.values < 0 && values_ == 0) contents_.text_features = text;
    if (text != contents_.text_features) refuse("samples are numbers here and texts there");
  }

  LeafContents& contents_;
  Vocabulary& vocabulary_;
  const std::string* path_ = nullptr;
  int part_ = 0;
  std::size_t at_ = 0;
  int64_t values_ = 0;  // of the sample or label in progress
};

// Second pass: every value to its place.
class Writer final : public LeafVisitor {
 public:
  Writer(const LeafContents& contents, const Vocabulary& vocabulary, const ClientLayout& layout,
         const SampleArrays& out)
      : contents_(contents), vocabulary_(vocabulary), layout_(layout), out_(out) {}

  // Where the next sample and label of a user's part go.
  struct Cursor {
    int64_t sample[2];
    int64_t label[2];
  };
  std::vector<Cursor> cursors;  // [users]; -1: the user is left out

  void start(int part) { part_ = part; }

  void user(const std::string& name) override { at_ = contents_.index.at(name); }
  void feature(double value) override { put(value); }
  void feature(const std::string& text) override {
    tokens_.clear();
    vocabulary_.encode(text, contents_.users[at_].name, tokens_);
    for (const int32_t token : tokens_) put(token);
  }
  void end_sample() override {
    ++cursors[at_].sample[part_];
    value_ = 0;
  }
  void label(double value) override { label_ = static_cast<int32_t>(value); }
  void label(const std::string& text) override {
    tokens_.clear();
    vocabulary_.encode(text, contents_.users[at_].name, tokens_);
    label_ = tokens_.front();
  }
  void end_label() override {
    int64_t& place = cursors[at_].label[part_];
    if (place >= 0) out_.labels[place++] = label_;
  }

 private:
  void put(double value) {
    const int64_t sample = cursors[at_].sample[part_];
    if (sample < 0) return;
    const int64_t place = sample * layout_.sample_values() + value_++;
    if (layout_.storage == Storage::kToken) {
      out_.features[place] = static_cast<std::byte>(value);
    } else {
      reinterpret_cast<float*>(out_.features)[place] = static_cast<float>(value);
    }
  }

  const LeafContents& contents_;
  const Vocabulary& vocabulary_;
  const ClientLayout& layout_;
  const SampleArrays& out_;
  int part_ = 0;
  std::size_t at_ = 0;
  int64_t value_ = 0;  // of the sample in progress
  int32_t label_ = 0;
  std::vector<int32_t> tokens_;
};

class LeafSource final : public ClientSource {
 public:
  LeafSource(const DataOptions& data, uint64_t seed)
      : folder_(data.path), seed_(seed), vocabulary_(make_character_vocabulary(data.vocabulary)) {
    find_files();
    test_fraction_ = files_[1].empty() ? data.test_fraction : 0;
    survey();
    describe_samples(data);
    lay_users_out();
  }

  const ClientLayout& layout() const override { return layout_; }

  void write(const SampleArrays& out) override {
    Writer writer(contents_, *vocabulary_, layout_, out);
    writer.cursors = cursors_;
    for (int part = 0; part < 2; ++part) {
      writer.start(part);
      for (const std::string& file : files_[part]) read_leaf_file(file, writer);
    }
    if (test_fraction_ > 0) split_clients(layout_, test_fraction_, seed_, out);
  }

 private:
  void find_files();
  void survey();
  void check_counts() const;
  void describe_samples(const DataOptions& data);
  void lay_users_out();

  std::string folder_;
  uint64_t seed_;
  std::unique_ptr<Vocabulary> vocabulary_;
  double test_fraction_ = 0;
  std::vector<std::string> files_[2];  // of train/ and test/
  LeafContents contents_;
  ClientLayout layout_;
  std::vector<Writer::Cursor> cursors_;  // [users]
};

void LeafSource::find_files() {
  files_[0] = json_files(fs::path(folder_) / "train");
  files_[1] = json_files(fs::path(folder_) / "test");
  if (files_[0].empty() && files_[1].empty()) files_[0] = json_files(folder_);
  if (files_[0].empty()) {
    throw InvalidArgument("there is no *.json in the folder's train", folder_,
                          "data.path is a folder with train/*.json and test/*.json");
  }
}

void LeafSource::survey() {
  Survey visitor(contents_, *vocabulary_);
  for (int part = 0; part < 2; ++part) {
    for (const std::string& file : files_[part]) {
      visitor.start(file, part);
      visitor.promise(read_leaf_file(file, visitor));
    }
  }
  vocabulary_->freeze();
  check_counts();
}

void LeafSource::check_counts() const {
  const char* names[] = {"train", "test"};
  for (const User& user : contents_.users) {
    for (int part = 0; part < 2; ++part) {
      const Count& count = user.parts[part];
      const auto where = fmt::format("{}/{}, user '{}'", folder_, names[part], user.name);
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
  if (contents_.values < 0) {
    throw InvalidArgument("there is no sample", folder_, kFormat);
  }
  if (contents_.text_labels && (!contents_.text_features || contents_.classes > 0)) {
    throw InvalidArgument("labels are texts where samples or other labels are numbers", folder_,
                          kFormat);
  }
  layout_.classes = contents_.text_labels ? vocabulary_->size() : contents_.classes;
  const bool tokens = contents_.text_features && vocabulary_->size() <= 256;
  layout_.storage = tokens ? Storage::kToken : Storage::kFloat;
  const int64_t wanted =
      std::accumulate(data.shape.begin(), data.shape.end(), int64_t{1}, std::multiplies<>());
  const bool image = !contents_.text_features && wanted == contents_.values;
  layout_.shape = image ? data.shape : std::vector<int64_t>{contents_.values};
}

// Users with training samples in the order of the files, then those with test samples alone.
void LeafSource::lay_users_out() {
  std::vector<std::size_t> order;
  int64_t no_test = 0;
  for (std::size_t u = 0; u < contents_.users.size(); ++u) {
    const User& user = contents_.users[u];
    if (user.parts[0].samples > 0) order.push_back(u);
    if (user.parts[0].samples > 0 && user.parts[1].samples == 0) ++no_test;
  }
  const std::size_t trained = order.size();
  for (std::size_t u = 0; u < contents_.users.size(); ++u) {
    const User& user = contents_.users[u];
    if (user.parts[0].samples == 0 && user.parts[1].samples > 0) order.push_back(u);
  }
  if (trained == 0) throw InvalidArgument("no user has a training sample", folder_, kFormat);
  layout_.held_out = static_cast<int64_t>(order.size() - trained);
  std::vector<int64_t> train, test;
  for (const std::size_t u : order) {
    train.push_back(contents_.users[u].parts[0].samples);
    test.push_back(contents_.users[u].parts[1].samples);
  }
  layout_.clients = lay_out(train, test, test_fraction_);
  cursors_.assign(contents_.users.size(), {{-1, -1}, {-1, -1}});
  for (std::size_t c = 0; c < order.size(); ++c) {
    const ClientRanges& own = layout_.clients[c];
    cursors_[order[c]] = {{own.begin, own.train_end}, {own.begin, own.train_end}};
  }
  tell_unmatched(files_[1].empty() ? 0 : no_test, layout_.held_out);
}

}  // namespace

std::unique_ptr<ClientSource> make_leaf_source(const DataOptions& data, uint64_t seed) {
  return std::make_unique<LeafSource>(data, seed);
}

}  // namespace hanse
