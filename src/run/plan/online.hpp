// The plan of an online job.
#pragma once

#include "../online_assembly.hpp"
#include "machines.hpp"

namespace hanse {

// Rounds are tried on scratch models; the planned ranks share their time. Collective; the sheet is
// rank 0's.
void plan_online(const Job& job, OnlineAssembly& parts, const Cluster& planned, Communicator& comm,
                 PlanSheet& sheet);

}  // namespace hanse
