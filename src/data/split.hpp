// What is kept out of training: test samples of each client, and clients.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/data/dataset.hpp"

namespace hanse {

// A part that a key asks for: a share below 1, which is rounded, or a whole number. Throws
// InvalidArgument, which names the key, for all else.
void check_part(double wanted, const std::string& key);
// REQUIRES: checked. May be more than there are.
int64_t part_of(double wanted, int64_t n);

// Number of test samples that a client of n samples gets, such a part; one sample at least stays.
int64_t test_samples(int64_t n, double test_fraction);

class ClientSplitter {
 public:
  // `labels` of all samples, empty for regression; outlives the object.
  // Throws InvalidArgument when the fraction is no part.
  ClientSplitter(std::span<const int32_t> labels, int64_t classes, double test_fraction,
                 uint64_t seed);

  // Puts the client's test samples behind its training samples; both keep their order. `own` are
  // sample indices. Returns the number of training samples.
  int64_t split(std::span<int64_t> own, uint64_t client);

 private:
  // The samples of one label of one client.
  struct Stratum {
    int64_t samples = 0;
    int64_t test = 0;
    double remainder = 0;
  };

  std::size_t label(int64_t sample) const {
    return labels_.empty() ? 0
                           : static_cast<std::size_t>(labels_[static_cast<std::size_t>(sample)]);
  }
  void count_strata(std::span<const int64_t> own);
  void set_test_counts(int64_t samples);
  void mark_test(std::span<const int64_t> own);

  std::span<const int32_t> labels_;
  double wanted_;  // test samples, a part
  uint64_t seed_;
  std::vector<int64_t> stratum_of_;  // [classes]; -1: the client has none
  std::vector<Stratum> strata_;      // in the order of first appearance in places_
  std::vector<int64_t> places_;      // of the client's samples, in random order
  std::vector<char> in_test_;
};

// Moves `wanted` of the clients, a share below 1 (rounded) or a whole number, and their names
// behind the others, a uniform choice of the seed; the last `held_out` of them are there already.
// Both parts keep their order; `held_out` grows. Throws InvalidArgument when nobody would be left.
void hold_out(std::vector<ClientRanges>& clients, std::vector<std::string>& names,
              int64_t& held_out, double wanted, uint64_t seed);

}  // namespace hanse
