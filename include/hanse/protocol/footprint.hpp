// What a round of a protocol sends and what a rank keeps for it.
//
// Each protocol computes its own, in the file beside the code that sends (src/protocol/
// *_footprint.cpp), from a few facts about the job and from the types that travel. Nothing is
// allocated, so that a laptop can do it for any number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hanse/base/row_part.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/experts/experts.hpp"

namespace hanse {

// Numbers are means over rounds where rounds differ, and so may be fractions.
struct RoundFootprint {
  // What a round sends of one kind.
  struct Sent {
    std::string kind;       // "plan", "model", "sum", ...
    double bytes = 0;       // payload sent by all ranks, as Communicator::bytes_moved() counts it
    double messages = 0;    // from one rank to another: a broadcast to R ranks takes R - 1
    double operations = 0;  // collective operations, each of which all ranks wait for
  };
  // What a rank keeps of one kind; of the rank that keeps most.
  struct Kept {
    std::string part;  // "model rows", "sums", ...
    double bytes = 0;
  };

  std::vector<Sent> sent;
  std::vector<Kept> memory;

  // RoundRecord::bytes_sent of a round that is not the first: the first one also brings the initial
  // model to the ranks.
  double bytes_sent() const;
  double messages() const;
  double operations() const;
  double memory_bytes() const;
  // Of one kind or part; 0 when there is none.
  double sent_bytes_of(const std::string& kind) const;
  double memory_bytes_of(const std::string& part) const;
};

// Collects what a round on `ranks` ranks sends. Bytes are those of one rank's buffer.
class FootprintTally {
 public:
  explicit FootprintTally(int64_t ranks) : others_(static_cast<double>(ranks - 1)) {}

  // Root to all, or all to root: the same bytes.
  void broadcast(const std::string& kind, double bytes) { add(kind, bytes * others_, others_); }
  void reduce(const std::string& kind, double bytes) { add(kind, bytes * others_, others_); }
  void allreduce(const std::string& kind, double bytes) {
    reduce(kind, bytes);
    broadcast(kind, bytes);
  }
  // `bytes`: of all other ranks together.
  void gather(const std::string& kind, double bytes) { add(kind, bytes, others_); }
  // `bytes`: of all ranks' parts together.
  void allgather(const std::string& kind, double bytes) {
    add(kind, bytes * others_, others_ * (others_ + 1));
  }
  // Sums up operations of one kind. On one rank nothing is sent.
  void add(const std::string& kind, double bytes, double messages, double operations = 1);
  void keep(const std::string& part, double bytes);

  RoundFootprint take() { return std::move(footprint_); }

 private:
  double others_;
  RoundFootprint footprint_;
};

// What a federated round's footprint follows from.
struct FederatedFacts {
  int64_t clients = 1;              // of the federation
  double participants = 1;          // of a round
  double most_on_rank = 0;          // participants of the busiest rank; 0: those of an even share
  double piece = 1;                 // participants that a rank takes at once from a served queue
  std::string role = "auto";        // server.role
  bool exact = true;                // comm.reduction
  bool planned = false;             // comm.dispatch
  bool has_deadline = false;        // run.round-seconds
  bool all_clients_first = false;   // all clients train before each draw: the sampler asks for it
  AggregatorNeeds needs;            // of the rule
  std::vector<RowPart> parts = {};  // of a row that are weighed apart, with needs.gram
  int64_t n_params = 0;             // P
  int64_t state_width = 0;          // of LocalUpdate, as the next two
  int64_t control_width = 0;
  bool control_returns = false;
};

// What an online round's footprint follows from.
struct OnlineFacts {
  int64_t nodes = 1;     // N
  int64_t n_params = 0;  // P
  Exchange exchange = Exchange::kAll;
  int64_t ridge_columns = 0;  // of the regressions that nodes keep; 0: none
};

// What a bandit's footprint follows from.
struct BanditFacts {
  int64_t clients = 1;          // N
  int64_t row_width = 0;        // numbers of a client's statistics
  int64_t repeats = 1;          // bandits played in step
  double synchronizations = 0;  // of a round and a bandit, in each of which all clients have news
};

}  // namespace hanse
