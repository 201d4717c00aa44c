// Tags and types of messages over MPI, its codes as exceptions, the ranks of each host and the
// processors they share. Private to comm/.
#pragma once

#include <cstdint>
#include <vector>

#include <mpi.h>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Messages of one kind never match a receive of another.
enum MessageTag : int { kCollectiveTag, kDownTag, kUpTag, kPointTag };

// Throws CommError with MPI's text, and this process's rank in `comm`, unless `code` is success.
void check_mpi(int code, const char* operation, MPI_Comm comm);

MPI_Datatype mpi_type(ElementType type);
MPI_Op mpi_op(ReduceOp op);

// Collective. The ranks of this rank's host, the lowest first; the caller frees it.
MPI_Comm split_ranks_by_host(MPI_Comm comm);

// As Communicator::split().
MPI_Comm split_ranks(MPI_Comm comm, int64_t colour);

struct HostShare {
  int ranks = 0;
  int processors = 0;   // that any rank of the host may run on
  int of_launcher = 0;  // that the launcher's process may run on

  bool shares_processors() const { return ranks > processors; }
  // Has the launcher bound the ranks to fewer processors than it has?
  bool bound_together() const { return shares_processors() && processors < of_launcher; }
};

// Collective over the ranks of one host.
HostShare host_share(MPI_Comm host);
// Collective. Rank 0 warns where the ranks of a host are bound_together().
void warn_of_bound_ranks(MPI_Comm comm);

// [size] the lowest rank in `comm` of each rank's host. Collective over `comm`; `host` has the
// ranks of this host, the lowest first.
std::vector<int> hosts_of_ranks(MPI_Comm comm, MPI_Comm host);

}  // namespace hanse
