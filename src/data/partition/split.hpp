// Data kept out of training: each client's samples for validation and for tests, and whole clients.
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
// The number that is asked for; may exceed n. REQUIRES: checked.
int64_t part_of(double wanted, int64_t n);

// The purpose of the samples that a key keeps out of training.
struct SamplePart {
  const char* key;
  uint64_t stream;  // of kSplit, which draws them
};
inline constexpr SamplePart kTestPart = {"data.test-fraction", 0};
inline constexpr SamplePart kValidationPart = {"data.validation-fraction", 1};

// The number of samples that such a part keeps out of a client's n; at least one stays.
int64_t samples_kept_out(int64_t n, double wanted);

// Throws InvalidArgument if validation would take all of a client's n > 0 training samples.
void require_training(int64_t n, double validation_fraction, const std::string& client);

class ClientSplitter {
 public:
  // `labels` of all samples, empty unless each has one class; must outlive the object. Throws
  // InvalidArgument when `wanted` is no part.
  ClientSplitter(std::span<const int32_t> labels, int64_t classes, double wanted, uint64_t seed,
                 const SamplePart& part = kTestPart);

  // Moves the client's samples of the part behind the others; both keep their order. `own` are
  // sample indices. Returns the number of the others.
  int64_t split(std::span<int64_t> own, uint64_t client);

 private:
  // A client's samples of one label.
  struct Stratum {
    int64_t samples = 0;
    int64_t chosen = 0;
    double remainder = 0;
  };

  std::size_t label(int64_t sample) const {
    return labels_.empty() ? 0
                           : static_cast<std::size_t>(labels_[static_cast<std::size_t>(sample)]);
  }
  void count_strata(std::span<const int64_t> own);
  void set_counts(int64_t samples);
  void mark_chosen(std::span<const int64_t> own);

  std::span<const int32_t> labels_;
  double wanted_;  // a part
  uint64_t seed_;
  uint64_t stream_;
  std::vector<int64_t> stratum_of_;  // [classes]; -1: the client has none
  std::vector<Stratum> strata_;      // in the order of first appearance in places_
  std::vector<int64_t> places_;      // the client's samples, in random order
  std::vector<char> chosen_;
};

// The reason to keep clients out of training: federation.held-out, federation.validation-clients.
enum class HeldFor { kTests, kValidation };

// Marks which of n clients are kept out: a share below 1 (rounded) or a whole number of them, a
// uniform choice of the seed, or those of the names. `names` are the clients', [n] or more; none:
// their numbers. Throws InvalidArgument: no client has a name, or nobody would be left.
std::vector<char> chosen_clients(const HeldOut& wanted, int64_t n,
                                 std::span<const std::string> names, uint64_t seed, HeldFor what);

// Throws InvalidArgument, which says why, if a client that the options keep out by its name is one
// of those without samples. `names` are those of the clients with samples.
void require_left(const FederationOptions& federation, std::span<const std::string> names,
                  std::span<const std::string> left_out);

// Marks which of n clients nobody trains on: those for tests and those for validation.
std::vector<char> untrained_clients(int64_t n, std::vector<std::string> names,
                                    const FederationOptions& federation, uint64_t seed);

// Moves the chosen clients, and their names, behind the others; the last `held_out` of them are
// there already. Both parts keep their order; `held_out` grows. Throws as chosen_clients().
void hold_out(std::vector<ClientRanges>& clients, std::vector<std::string>& names,
              int64_t& held_out, const HeldOut& wanted, uint64_t seed,
              HeldFor what = HeldFor::kTests);

}  // namespace hanse
