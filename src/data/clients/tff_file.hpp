// A file of TensorFlow Federated: /examples/CLIENT/NAME, one dataset a client and name.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client_source.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/hdf5_file.hpp"

namespace hanse {

// Runs `work` with the library to itself. Input that cannot be read is bad input.
template <class Work>
auto read_input(Work work) {
  const hdf5::Section section;
  try {
    return work();
  } catch (const IoError& error) {
    throw InvalidArgument(error.what(), "", "the file is incomplete or damaged; fetch it again");
  }
}

// "dataset score" for each name that is not used, for the line at the start.
std::vector<std::string> unread_datasets(const std::vector<std::string>& names,
                                         const std::vector<std::string>& used);

// Open while the object lives. REQUIRES, for every call: inside an hdf5::Section.
class TffFile {
 public:
  // Lists the clients. Throws InvalidArgument: no such file, no HDF5, no group /examples, no
  // client.
  explicit TffFile(const std::string& path);
  ~TffFile();

  // Sorted by name.
  int64_t clients() const { return std::ssize(entries_); }
  const std::string& name(int64_t client) const { return entry(client).name; }

  std::vector<std::string> names(int64_t client) const;
  // [samples, ...]; its file() is its name in messages. Nothing for a client without any dataset.
  // Throws InvalidArgument that lists the names there are, when this is not one of them.
  std::optional<hdf5::Dataset> dataset(int64_t client, const std::string& name) const;

 private:
  // Clients are opened by address: looking up each of many names takes longer than reading.
  struct Entry {
    std::string name;
    uint64_t address;
  };
  const Entry& entry(int64_t client) const { return entries_[static_cast<std::size_t>(client)]; }
  std::string where(int64_t client) const;
  hdf5::Handle open(int64_t client) const;

  hdf5::File file_;
  std::vector<Entry> entries_;
};

// The train file and, when there is one, the test file; clients are matched by name.
class TffPair {
 public:
  TffPair(const std::string& train, const std::string& test) : train_(train) {
    if (!test.empty()) test_.emplace(test);
    for (int64_t c = 0; c < train_.clients(); ++c) clients_.push_back({c, -1});
    if (test_) match();
  }

  bool has_test() const { return test_.has_value(); }
  // The train file's clients by name, then those of the test file alone.
  int64_t clients() const { return std::ssize(clients_); }
  const TffFile& train_file() const { return train_; }
  const std::string& name(int64_t client) const {
    const auto [in_train, in_test] = clients_[static_cast<std::size_t>(client)];
    return in_train >= 0 ? train_.name(in_train) : test_->name(in_test);
  }

  // A dataset of a client in the train file (0) or the test file (1); nothing if that file lacks
  // the client.
  std::optional<hdf5::Dataset> dataset(int part, int64_t client, const std::string& name) const {
    const int64_t at = clients_[static_cast<std::size_t>(client)][static_cast<std::size_t>(part)];
    if (at < 0) return std::nullopt;
    return (part == 0 ? train_ : *test_).dataset(at, name);
  }

 private:
  void match() {
    std::unordered_map<std::string, std::size_t> place;
    for (int64_t c = 0; c < train_.clients(); ++c) {
      place.emplace(train_.name(c), static_cast<std::size_t>(c));
    }
    for (int64_t c = 0; c < test_->clients(); ++c) {
      const auto found = place.find(test_->name(c));
      if (found == place.end()) {
        clients_.push_back({-1, c});
      } else {
        clients_[found->second][1] = c;
      }
    }
  }

  TffFile train_;
  std::optional<TffFile> test_;
  std::vector<std::array<int64_t, 2>> clients_;  // index in each file; -1: it has none
};

// Texts with tags: bags of words that have several labels.
// Sample: for each of the data.vocabulary-size most frequent words its share of the words in a text
// of the dataset `features`, one of the clients' `names`; the text of `title` follows where
// data.feature-column is empty and there is one. Label: which of the data.tags most frequent tags
// the text has, among those between | in data.label-column. Equally frequent ones go by their
// bytes; all texts are counted. Throws InvalidArgument. Cost: reads every text twice; samples take
// 4 bytes a word of the vocabulary.
std::unique_ptr<ClientSource> make_tag_source(std::unique_ptr<TffPair> files, std::string features,
                                              const std::vector<std::string>& names,
                                              const DataOptions& data, uint64_t seed);

}  // namespace hanse
