// Stages between a client's training and the sum: each may change the update before it counts, as
// compression or noise does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/client/local_update.hpp"

namespace hanse {

// A participant's update, on the rank that trained it.
struct StagedUpdate {
  int64_t client;
  int64_t round;            // from 1
  uint64_t seed;            // run.seed
  std::span<float> update;  // [P] theta_i - theta, or what the client sends in its place
  std::span<float> state;   // the stage's blocks of this client, zero at its first participation
  std::span<float> second_row;  // [second_row_width()] zeros; what is sent beside the update
};

class UpdateStage {
 public:
  virtual ~UpdateStage() = default;
  // What it keeps of each client between rounds, behind the client's own state: it travels with the
  // client, and is part of checkpoints.
  virtual std::vector<StateBlock> state_blocks() const { return {}; }
  virtual int64_t second_row_width() const { return 0; }
  // Bytes of an update of so many values on a link from a client, second row aside.
  virtual int64_t update_bytes(int64_t n_params) const { return 4 * n_params; }
  // A pure function of `staged`, so that the bits do not depend on who trains whom.
  virtual void apply(const StagedUpdate& staged) = 0;
  // On rank 0 before the server's step: the sum of the participants' second rows, each times
  // lambda_i.
  virtual void observe(std::span<const float> /*second_row*/) {}
};

class SumStage;

// What changes updates, in this order, and their sum: the stages' blocks and their parts of the
// second row stand one behind the other. All must outlive it. On hosts alone.
struct Stages {
  std::vector<UpdateStage*> updates = {};  // each changes what the one before it has left
  SumStage* sum = nullptr;  // null: the sum is that of the updates. Of exact sums alone

  std::vector<StateBlock> state_blocks() const;
  int64_t second_row_width() const;
  // Of the one that sends least.
  int64_t update_bytes(int64_t n_params) const;
  void apply(const StagedUpdate& staged) const;
  void observe(std::span<const float> second_row) const;
};

}  // namespace hanse
