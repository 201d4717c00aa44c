// How fast a federated job's work goes here: rounds of a scratch protocol, timed.
#pragma once

#include <cstdint>

#include "cost.hpp"
#include "hanse/run/components.hpp"

namespace hanse {

struct Rates {
  // Means over the scratch rounds on the started ranks, from their RoundRecords. None: a round
  // would have taken too long or kept too much, and some clients alone were trained.
  int64_t rounds = 0;
  double round_s = 0;   // RoundRecord::seconds
  double train_s = 0;   // RoundRecord::train_s
  double server_s = 0;  // the server's step; without rounds from the speed of memory

  double train_sample_s = 0;  // to train on a sample, on one rank
  double sample_s = 0;        // to evaluate a sample
  double own_sample_s = 0;  // to make a client's own model, for each sample that training it takes
  double product_s = 0;     // the inner products of a round's updates, on one rank
  double copy_s = 0;        // a byte, from memory to memory
  double add_s = 0;         // a byte of int64, added to another
  Link link;                // between the started ranks; rates 0: there is one
  double work_bytes = 0;    // of memory that training and evaluation took beside the rows
  double state_bytes = 0;   // of a checkpoint, held while it is written
};

// What a scratch round would take on the started ranks.
struct ScratchRound {
  double train_samples = 0;     // of the busiest rank, in everything that trains
  double evaluate_samples = 0;  // of the busiest rank, in everything that evaluates
  double row_bytes = 0;         // of rows that a rank keeps for it
  double products = 0;          // multiplications of a rank for inner products
};

// Resident memory of this process.
double resident_bytes();
// Samples of a client's evaluation: its training samples are not gone through twice.
double samples_evaluated(const Federation& federation, int64_t client);

// Collective; takes some five seconds. `parts` are on scratch state: their model is initialized and
// moved, and must not be kept. `job`: as clients train. `expected` counts on rank 0. All ranks get
// the same, but for rounds, memory and product_s, which are rank 0's.
// Throws AgreedError when training fails.
Rates measure(Job& job, Components& parts, const Cluster& started, const ScratchRound& expected,
              Communicator& comm);

}  // namespace hanse
