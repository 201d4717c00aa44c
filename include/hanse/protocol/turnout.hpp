// Who of the drawn count in a round, and with which model and how long they worked.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// What a participant works on, where it is not all of a round's work on the newest model. Trivially
// copyable: it travels as bytes.
struct TaskOrigin {
  int64_t received = 0;  // rounds that were completed when it got the model
  int64_t repeat = 0;    // ClientTask's, as `steps`
  int64_t steps = 0;
};

// Arrays are per participant, in the order of the draw.
struct RoundTurnout {
  Draw draw;  // the participants, whose updates count
  WorkTimes times = {};
  std::vector<TaskOrigin> tasks = {};  // [K]; empty: everybody does all on the newest model
};

// Draws n clients, by the random stream of draw number `call` (from 1), after these came or went.
using DrawClients = std::function<Draw(int64_t call, int64_t n, std::span<const int64_t> changes)>;

// On rank 0. Without one, all who are drawn take part.
class Turnout : public Stateful {
 public:
  // The round's participants. What it returns does not depend on any training but by the draws.
  virtual RoundTurnout next(int64_t round, const DrawClients& draw) = 0;
  // Seconds of virtual time behind the last round.
  virtual double seconds() const = 0;
  // Adds its own columns to the run's tables; it outlives them.
  virtual void add_columns(Columns& /*columns*/) const {}
};

}  // namespace hanse
