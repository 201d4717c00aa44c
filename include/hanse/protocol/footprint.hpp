// What a round of a protocol sends and a rank keeps for it.
//
// Each protocol computes its own, beside the code that sends, from a few facts about the job and
// from the types that travel. Nothing is allocated, so that a laptop can do it for any number of
// ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hanse/base/row_part.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

// Numbers are means over rounds where rounds differ, and so may be fractions.
class RoundFootprint {
 public:
  explicit RoundFootprint(int64_t ranks) : others_(static_cast<double>(ranks - 1)) {}

  // RoundRecord::bytes_sent of any round but the first, which also brings the initial model to the
  // ranks. It is the payload that all ranks send, as in Communicator::bytes_moved().
  double bytes_sent() const;
  double messages() const { return messages_; }      // from one rank to another
  double operations() const { return operations_; }  // collective, for which all ranks wait
  double memory_bytes() const;                       // on the rank that keeps most
  // Bytes of one kind, "plan", "model" or "sum", or part, "model rows" or "sums"; or 0.
  double sent_bytes_of(const std::string& kind) const;
  double memory_bytes_of(const std::string& part) const;

  double others() const { return others_; }  // ranks beside rank 0
  // Adds a message from the root to all, or from all to the root: the same bytes. `bytes` are those
  // of one rank's buffer.
  void broadcast(const std::string& kind, double bytes) { add(kind, bytes * others_, others_); }
  void reduce(const std::string& kind, double bytes) { add(kind, bytes * others_, others_); }
  void allreduce(const std::string& kind, double bytes) {
    reduce(kind, bytes);
    broadcast(kind, bytes);
  }
  // `bytes` are those of all other ranks together.
  void gather(const std::string& kind, double bytes) { add(kind, bytes, others_); }
  // `bytes` are those of all ranks' parts together.
  void allgather(const std::string& kind, double bytes) {
    add(kind, bytes * others_, others_ * (others_ + 1));
  }
  // Sums up operations of one kind. On one rank nothing is sent.
  void add(const std::string& kind, double bytes, double messages, double operations = 1);
  void keep(const std::string& part, double bytes) { memory_[part] += bytes; }

 private:
  double others_;
  double messages_ = 0;
  double operations_ = 0;
  std::map<std::string, double> sent_;    // kind: bytes
  std::map<std::string, double> memory_;  // part: bytes
};

// The facts from which a federated round's footprint follows.
struct FederatedFacts {
  int64_t clients = 1;      // of the federation
  double participants = 1;  // in a round
  double most_on_rank = 0;  // participants of the busiest rank; 0: an even share
  ServerRole role = ServerRole::kAuto;
  bool exact = true;                // comm.reduction
  bool planned = false;             // comm.dispatch
  bool has_deadline = false;        // run.round-seconds
  bool all_clients_first = false;   // the sampler lets all clients train before each draw
  double candidates = 0;            // clients whose losses the sampler asks for before each draw
  bool squares = false;             // FederatedSettings::squares
  AggregatorNeeds needs;            // the rule's
  std::vector<RowPart> parts = {};  // parts of a row that are weighed apart, with needs.gram
  int64_t n_params = 0;             // P
  int64_t state_width = 0;          // floats of LocalUpdate, as the next two, and of the rule
  int64_t control_width = 0;
  bool control_returns = false;
  // Rows of the participants' adapters (stacking.hpp) that rank 0, or every rank, gets.
  enum class Stacked { kNone, kOnServer, kOnAll };
  Stacked stacked = Stacked::kNone;
  bool chooses_copies = false;  // ranks tell each other which copies participants take
  int64_t private_rows = 0;  // rows of integers that private rounds keep; 0: rounds are not private
};

// What FederatedTrainer::round() sends and a rank keeps on so many ranks of so many hosts, when
// CPUs train. It leaves out what depends on training: states that move, steps that are tried again.
RoundFootprint federated_footprint(const FederatedFacts& facts, int64_t ranks, int64_t hosts);

// Bytes of rank 0 for a rule's numbers of each pair of updates: the inner products while they are
// found, or with them what the rule makes of them.
double rule_bytes(const FederatedFacts& facts, int64_t ranks);
// Seconds that rank 0 takes for what the rule computes of them, about.
double rule_seconds(const FederatedFacts& facts);

}  // namespace hanse
