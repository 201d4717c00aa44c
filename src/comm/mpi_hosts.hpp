// Which ranks are on which host, and what those of one host share. Private to comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <mpi.h>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Collective. The ranks of this rank's host, the lowest first; the caller frees it.
MPI_Comm split_ranks_by_host(MPI_Comm comm);

// Collective over the ranks of one host: do they outnumber the cores that they may run on?
bool ranks_share_cores(MPI_Comm host);

// [size] the lowest rank in `comm` of each rank's host. Collective over `comm`, of which `host` has
// the ranks of this host, the lowest first.
std::vector<int> hosts_of_ranks(MPI_Comm comm, MPI_Comm host);

// Collective; Communicator::allocate_shared() over the processes of one host.
std::shared_ptr<std::byte> share_memory(Communicator& comm, int64_t bytes);

}  // namespace hanse
