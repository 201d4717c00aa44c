// A stage that changes the integers of an exact sum of updates: noise and masks, for example.
#pragma once

#include <cstdint>
#include <span>

namespace hanse {

// Entries of a sum, in units of 2^-44 (UpdateSum::kUnits) and modulo 2^64.
struct SummedEntries {
  int64_t round;                // from 1
  int64_t begin;                // the number of the first entry
  std::span<int64_t> integers;  // of the entries from there on
};

// An object a rank. Every method is a pure function of round and entries, so that the number of
// parts in which it is called does not matter.
class SumStage {
 public:
  virtual ~SumStage() = default;
  // Gets a rank's own sum, still zero, before the first update of the round is added.
  virtual void begin(const SummedEntries& /*sum*/) {}
  // Gets a rank's own sum, with all its updates, before the ranks' sums are combined.
  virtual void on_rank(const SummedEntries& /*sum*/) {}
  // Gets the combined sum, on rank 0, before the server steps by it.
  virtual void on_server(const SummedEntries& /*sum*/) {}
};

}  // namespace hanse
