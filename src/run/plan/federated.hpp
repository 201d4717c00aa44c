// The plan of a federated job, and of its bounds.
#pragma once

#include "hanse/run/components.hpp"
#include "machines.hpp"

namespace hanse {

// Resident bytes of this process on its way.
struct ProcessMemory {
  double start = 0;  // before the job's objects
  double load = 0;   // the most while they were made: reading data may take more than keeping them
};

// Collective; the sheet is rank 0's. `job` stays as it is.
void plan_federated(const PlanOptions& options, Job& job, Components& parts,
                    const ProcessMemory& process, const Cluster& started, Cluster planned,
                    Communicator& comm, PlanSheet& sheet);

}  // namespace hanse
