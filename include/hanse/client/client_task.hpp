// A participant's task, and its outcome.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// A round and a repeat of it in one number, as random streams and stages know them.
inline constexpr int kRoundBits = 32;
constexpr int64_t round_key(int64_t round, int64_t repeat) {
  return round + (repeat << kRoundBits);
}
constexpr int64_t round_of_key(int64_t key) { return key & ((int64_t{1} << kRoundBits) - 1); }

// One participation.
struct ClientTask {
  int64_t client = 0;
  int64_t round = 0;       // from 1: that of the received model
  int64_t repeat = 0;      // tasks of this client with that model before it
  uint64_t seed = 0;       // run.seed
  std::span<float> row;    // [P]: the received model on entry, the local model on return
  std::span<float> state;  // [state_width()] of this client, zero at its first participation
  std::span<const float> control;   // [control_width()] the server's control variate c
  std::span<float> control_change;  // [control_width()] out: by how much the client's own one moved
  int64_t steps = 0;                // mini-batches, where there is time for no more; 0: all
  int64_t next = -1;                // the client that trains here next, if known; for speed alone
  bool squares = false;             // the outcome shall have them

  // Another one for each repeat.
  int64_t key() const { return round_key(round, repeat); }
};

struct ClientOutcome {
  double loss = 0;      // mean of the mini-batch losses of the round
  int64_t samples = 0;  // samples processed, over all steps
  double rate = 0;      // d, by how much its own step would lower its loss; where rules need it
  double squares = 0;   // sum of the squared losses of those samples, where the task asks
};

}  // namespace hanse
