// A participant of a round and the rank that trains it.
#pragma once

#include <cstdint>

namespace hanse {

// One participation as all ranks know it. Trivially copyable: it travels as bytes.
struct Assignment {
  int64_t client;
  int64_t position;    // in the draw
  int64_t worker;      // that trains it, when the schedule is planned
  double coefficient;  // of its update in the sum
  double importance;   // lambda_i, of its second row
};

}  // namespace hanse
