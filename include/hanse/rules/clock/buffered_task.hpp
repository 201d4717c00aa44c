// A task of an asynchronous round.
#pragma once

#include <cstdint>

#include "hanse/rules/clock/ticks.hpp"

namespace hanse {

// A task of a client that received a version of the model.
struct BufferedTask {
  int64_t client = 0;
  int64_t received = 0;    // the version
  int64_t call = 0;        // the dispatch, from 1: the round of its draw, jitter and loss
  int64_t place = 0;       // in that dispatch's draw
  double weight = 1;       // in that dispatch's draw, as the next two
  double probability = 0;  // 0: unknown
  int64_t count = 1;
  Ticks start = 0;
  Ticks known = 0;        // its arrival, or when it is known that nothing comes
  bool arrives = true;    // false: lost
  int64_t repeats = 0;    // earlier dispatches of the client at that version
  int64_t staleness = 0;  // once it arrived: versions made since the one it received
};

}  // namespace hanse
