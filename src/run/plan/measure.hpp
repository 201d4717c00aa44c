// How fast a federated job's work goes here: rounds of a scratch protocol, timed.
#pragma once

#include <cstdint>

#include "cost.hpp"
#include "../federated_assembly.hpp"
#include "workload.hpp"

namespace hanse {

struct Rates {
  // Of whole rounds, as the run would make them; false: such a round would take too long or keep
  // too much, and the rounds were of one client a rank, which took few steps.
  bool whole = false;
  double round_s = 0;         // RoundRecord::seconds, mean
  double train_sample_s = 0;  // to train on a sample, on one rank
  double sample_s = 0;        // to evaluate a sample
  double server_s = 0;        // the server's step
  double product_s = 0;       // the inner products of a round's updates, on one rank
  double copy_s = 0;          // a byte, from memory to memory
  double add_s = 0;           // a byte of int64, added to another
  Link link;                  // between the started ranks; rates 0: there is one
  double work_bytes = 0;      // of memory that training and evaluation took beside the rows
  double state_bytes = 0;     // of a checkpoint, held while it is written
};

// Resident memory of this process.
double resident_bytes();

// Collective; takes some five seconds. `parts` are on scratch state: their model is initialized and
// moved, and must not be kept. `job`: as clients train; it stays as it is. `workload` and
// `row_bytes`, which a rank keeps of a whole round, count on rank 0, where the rates are complete.
// Throws AgreedError when training fails.
Rates measure(Job& job, FederatedAssembly& parts, const Cluster& started, const Workload* workload,
              double row_bytes, Communicator& comm);

}  // namespace hanse
