// The plan of a federated job, and of its bounds.
#pragma once

#include "../federated_assembly.hpp"
#include "machines.hpp"

namespace hanse {

// Resident bytes of this process on its way.
struct ProcessMemory {
  double start = 0;  // before the job's objects
  double load = 0;   // the most while they were made: reading data may take more than keeping them
};

// Collective; the sheet is rank 0's.
void plan_federated(const PlanOptions& options, const Job& job, FederatedAssembly& parts,
                    const ProcessMemory& process, const Cluster& started, Cluster planned,
                    Communicator& comm, PlanSheet& sheet);

}  // namespace hanse
