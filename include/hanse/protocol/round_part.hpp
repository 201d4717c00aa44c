// What may act in every round of a federated run beside its rule: noise on the sum, for example.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/sums/update_sum.hpp"

namespace hanse {

// A participant's update, on its way into the sum.
struct SummedUpdate {
  int64_t client;
  int64_t place;                  // in the draw
  double coefficient;             // the rule's, where it weighs before the training
  std::span<const float> update;  // [P]
};

// An object a rank; all ranks go through the same rounds. A round's sum is opened, closed and read
// once; between the first two a rank's clients are taken. Of several parts the last one reads the
// sum first. All methods are empty but what a part overrides.
class RoundPart : public Stateful {
 public:
  // This rank's sum is still zero, and its first update comes next. `round` counts from 1.
  virtual void opens(int64_t /*round*/, UpdateSum& /*sum*/) {}
  // All of this rank's updates are in. Collective.
  virtual void closes(UpdateSum& /*sum*/) {}
  // Rank 0, with the sum over all ranks: may change it, or write the rows that the server steps by
  // and clear it. Did it write them?
  virtual bool reads(UpdateSum& /*sum*/, std::span<float> /*rows*/) { return false; }
  // The round is over, on every rank.
  virtual void finishes() {}

  // Does it add the updates to the sum, in the place of their coefficients?
  virtual bool takes_updates() const { return false; }
  // Adds an update.
  virtual FoldResult take(const SummedUpdate& /*one*/, UpdateSum& /*sum*/) { return {}; }

  // Does the server step though nobody came?
  virtual bool steps_alone() const { return false; }
  // Rank 0: why there may be no further round; empty: there may.
  virtual std::string end() const { return ""; }
  // Adds its own columns to the run's tables; it outlives them.
  virtual void add_columns(Columns& /*columns*/) const {}

  // The name of its state in checkpoints.
  virtual const char* name() const = 0;
  // Brings what save() needs to rank 0, and what load() found there to the others. Collective.
  virtual void collect() {}
  virtual void share() {}
};

}  // namespace hanse
