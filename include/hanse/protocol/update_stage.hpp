// Stages between a client's training and the sum: each may change the update before it counts, as
// compression or noise does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/protocol/compression_options.hpp"

namespace hanse {

// A participant's update, on the rank that trained it.
struct StagedUpdate {
  int64_t client;
  int64_t round;            // from 1; ClientTask::key()
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

// The stages that change updates, in this order. Their state blocks and parts of the second row
// stand one behind the other. All must outlive it. They work in hosts' memory.
struct Stages {
  std::vector<UpdateStage*> updates = {};  // each changes the result of the one before it

  std::vector<StateBlock> state_blocks() const;
  int64_t second_row_width() const;
  // The bytes of the stage that sends least.
  int64_t update_bytes(int64_t n_params) const;
  void apply(const StagedUpdate& staged) const;
  void observe(std::span<const float> second_row) const;
};

// Compression, as for a link between clients and server.
// Compresses, by options.compress, the P values of an update that gradients train; buffers stay. k
// is options.keep (a share of P below 1, rounded, at least one; or a number), b is options.bits, u
// the row to be sent:
//   top-k     the k entries of largest |u|, the first among equals (Aji and Heafield 2017)
//   random-k  k entries drawn for each client and round (Stich et al. 2018)
//   sign      |u|_1/n sign(u), n the entries that are not 0, which stay 0 (Karimireddy et al. 2019)
//   quantize  levels of max |u| / (2^(b-1) - 1) (Alistarh et al. 2017)
// With options.error_feedback u is the update plus the rest e of the client's earlier messages,
// which it keeps: e <- u - sent (Seide et al. 2014; Karimireddy et al. 2019); levels are the
// nearest. Else u is the update, random-k sends P/k u, and levels are drawn among the two
// neighbours, so that both are right on average. Random numbers are those of seed, round and
// client. State with error feedback: P floats a client. Cost: two passes over the update; top-k
// selects in O(P). Null for options.compress = none. Throws InvalidArgument: a keep that is neither
// a share nor a number.
std::unique_ptr<UpdateStage> make_compression(const CompressionOptions& options,
                                              const ParameterLayout& layout);

}  // namespace hanse
