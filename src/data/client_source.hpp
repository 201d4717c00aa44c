// Clients and their samples on their way to where they are used: shared memory, or a file. A source
// says first how much there is, then writes it, so that nobody holds all samples on the way.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/data/client_ranges.hpp"
#include "hanse/data/dataset.hpp"

namespace hanse {

struct ClientLayout {
  std::vector<int64_t> shape;  // of one sample
  Storage storage = Storage::kFloat;
  int64_t classes = 0;                // 0: regression
  std::vector<ClientRanges> clients;  // each begins where the one before it ends
  int64_t held_out = 0;               // the last ones: they have test samples only

  int64_t samples() const { return clients.empty() ? 0 : clients.back().end; }
  int64_t sample_values() const;
  int64_t sample_bytes() const { return sample_values() * storage_bytes(storage); }
};

// Where the samples go.
struct SampleArrays {
  std::byte* features;  // [samples, sample_values], stored as the layout says
  int32_t* labels;      // [samples]; null for regression
  float* targets;       // [samples]; null for classification
};

// XXH3 of the samples as they stand, of the clients' ranges and of all sizes.
uint64_t digest_of(const ClientLayout& layout, const SampleArrays& arrays);

class ClientSource {
 public:
  virtual ~ClientSource() = default;
  // Of all samples; valid as long as the source.
  virtual const ClientLayout& layout() const = 0;
  // Writes every sample. Called once at most. Throws InvalidArgument: what layout() did not see.
  virtual void write(const SampleArrays& out) = 0;
};

// Lays clients of these numbers of training and test samples one after another. With a
// `test_fraction` above 0 the data have no test samples of their own: that share of each client's
// training samples becomes them, and split_clients() chooses which.
std::vector<ClientRanges> lay_out(const std::vector<int64_t>& train,
                                  const std::vector<int64_t>& test, double test_fraction = 0);

// Tells of clients that only one of the training and the test data have; nothing about none.
void tell_unmatched(int64_t train_only, int64_t test_only);

// Brings the test samples of every client behind its training samples, as split_train_test() does;
// the layout's counts are those of test_samples() (split.hpp). Cost: one pass over the samples, one
// client in memory.
void split_clients(const ClientLayout& layout, double test_fraction, uint64_t seed,
                   const SampleArrays& arrays);

}  // namespace hanse
