// How fast each client is.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/ticks.hpp"

namespace hanse {

struct ClientProfile {
  double sample_s = 0.005;  // seconds of a sample, of the forward pass where the factor is 3
  double down_bps = std::numeric_limits<double>::infinity();
  double up_bps = std::numeric_limits<double>::infinity();
  double latency_s = 0;  // each way
};

// Bytes of a task on its client's link.
struct RowBytes {
  int64_t down = 0;
  int64_t up = 0;
};

// The three parts of a task, each at least one tick.
struct Phases {
  Ticks down = 1;
  Ticks compute = 1;
  Ticks up = 1;

  Ticks total() const { return down + compute + up; }
};

class ClientProfiles {
 public:
  // Draws the profiles of the clients by the options: `samples` [M] has each client's training
  // samples, which size_correlation orders speeds by. `seed` is clock.seed, resolved. Profiles that
  // are all alike are kept once. Cost: O(M), O(M log M) with a correlation. Throws InvalidArgument,
  // naming the client, when a drawn value is not positive or not finite.
  ClientProfiles(const ClockOptions& options, std::span<const int64_t> samples, uint64_t seed);
  // Client i has row i mod rows. REQUIRES: there is a row.
  ClientProfiles(const ClockOptions& options, std::vector<ClientProfile> rows, uint64_t seed);

  const ClientProfile& profile(int64_t client) const {
    return rows_[static_cast<std::size_t>(client) % rows_.size()];
  }

  // (A1): down l + 8 Bd/bd, compute f s m e^x, up l + 8 Bu/bu, each rounded. `number` is that of
  // the round or of the dispatch, from 1, which the jitter x is drawn for; 0: without jitter.
  // Throws InvalidArgument, naming the client, as ticks_of() does.
  Phases durations(int64_t client, int64_t samples, RowBytes bytes, int64_t number) const;

 private:
  std::vector<ClientProfile> rows_;
  double backward_factor_;
  double jitter_;
  uint64_t seed_;
};

}  // namespace hanse
