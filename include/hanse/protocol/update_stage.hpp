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
  std::span<float> update;  // [P] theta_i - theta, or what the client sends instead
  std::span<float> state;   // this client's blocks of the stage, zero at its first participation
  std::span<float> second_row;  // [second_row_width()] zeros; sent beside the update
};

class UpdateStage {
 public:
  virtual ~UpdateStage() = default;
  // The blocks that the stage keeps for each client between rounds, behind the client's own state:
  // they travel with the client, and are part of checkpoints.
  virtual std::vector<StateBlock> state_blocks() const { return {}; }
  virtual int64_t second_row_width() const { return 0; }
  // Bytes of an update with so many values on a client's link, without the second row.
  virtual int64_t update_bytes(int64_t n_params) const { return 4 * n_params; }
  // A pure function of `staged`, so that the bits do not depend on who trains whom.
  virtual void apply(const StagedUpdate& staged) = 0;
  // Gets, on rank 0 before the server's step, the sum of the participants' second rows, each times
  // lambda_i.
  virtual void observe(std::span<const float> /*second_row*/) {}
};

class SumStage;

// The stages that change updates, in this order, and the stage of the sum. Their state blocks and
// parts of the second row stand one behind the other. All must outlive it. On hosts alone.
struct Stages {
  std::vector<UpdateStage*> updates = {};  // each changes the result of the one before it
  SumStage* sum = nullptr;                 // null: nothing changes the sum. For exact sums alone

  std::vector<StateBlock> state_blocks() const;
  int64_t second_row_width() const;
  // The bytes of the stage that sends least.
  int64_t update_bytes(int64_t n_params) const;
  void apply(const StagedUpdate& staged) const;
  void observe(std::span<const float> second_row) const;
};

}  // namespace hanse
