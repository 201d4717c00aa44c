// What may change the integers of an exact sum of updates: noise and masks, for example.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// Entries of a sum, in units of 2^-44 (UpdateSum::kUnits) and modulo 2^64.
struct SummedEntries {
  int64_t round;                // from 1
  int64_t begin;                // the number of the first one
  std::span<int64_t> integers;  // of the entries from there on
};

// An object a rank. Every method is a pure function of round and entries, so that it does not
// matter in how many parts it is asked.
class SumStage {
 public:
  virtual ~SumStage() = default;
  // A rank's own sum, zero yet: before the first update of the round is added.
  virtual void begin(const SummedEntries& /*sum*/) {}
  // A rank's own sum, with all its updates: before the ranks' are combined.
  virtual void on_rank(const SummedEntries& /*sum*/) {}
  // The combined sum, on rank 0: before the server steps by it.
  virtual void on_server(const SummedEntries& /*sum*/) {}
};

}  // namespace hanse
