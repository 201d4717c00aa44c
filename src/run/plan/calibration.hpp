// How fast a job's work goes here: measured in some seconds, on scratch memory.
#pragma once

#include <cstdint>

#include "cost.hpp"
#include "../federated_assembly.hpp"

namespace hanse {

struct Calibration {
  Curve client{{}};        // seconds of a participation, by the samples that it processes
  double sample_s = 0;     // to evaluate a sample
  double own_share = 0;    // making a client's own model, over a participation
  double server_s = 0;     // the server's step
  double gram_s = 0;       // the inner products of a round's updates, on one rank
  double copy_s = 0;       // a byte, from memory to memory
  double add_s = 0;        // a byte of int64, added to another
  Link link;               // between the ranks that measured; rates 0: there was one
  double stall_s = 0;      // of a round: ranks wait for cores that other work has
  double work_bytes = 0;   // of memory that training and evaluation took beside the rows
  double state_bytes = 0;  // of a checkpoint, held while it is written
};

// Clients that can take part: one when all samples are pooled.
int64_t trained_clients(const FederatedAssembly& parts);
// Samples that a participation of the client processes, and its mini-batch steps.
int64_t work_of(const FederatedAssembly& parts, int64_t client);
int64_t steps_of(const FederatedAssembly& parts, int64_t client);
// Samples of a client's evaluation: its training samples are not gone through twice.
int64_t samples_evaluated(const FederatedAssembly& parts, int64_t client);

// Resident memory of this process.
double resident_bytes();

// As many clients as will train at once on a host of the run train here at once, as far as there
// are cores: on the first ranks of each host, and where the run has more ranks a host than were
// `started`, on several threads of each.
// Collective; all ranks get the same, but for server_s, gram_s and memory, which are rank 0's.
// Throws AgreedError when a client's training fails.
Calibration calibrate(const Job& job, FederatedAssembly& parts, const Cluster& started,
                      const Cluster& planned, Communicator& comm);

}  // namespace hanse
