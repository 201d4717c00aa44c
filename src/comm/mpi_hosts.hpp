// Which ranks are where. Private to comm/.
#pragma once

#include <vector>

#include <mpi.h>

namespace hanse {

// Collective over the ranks of one host: do they outnumber the cores that they may run on?
bool ranks_share_cores(MPI_Comm host);

// [size] the lowest rank in `comm` of each rank's host. Collective over `comm`, of which `host` has
// the ranks of this host, the lowest first.
std::vector<int> hosts_of_ranks(MPI_Comm comm, MPI_Comm host);

}  // namespace hanse
