// Files of TensorFlow Federated with training and with test samples.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tff_file.hpp"

namespace hanse {

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

}  // namespace hanse
