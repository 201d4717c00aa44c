#include "mpi_hosts.hpp"

#include <sched.h>

#include "mpi_messages.hpp"

namespace hanse {

bool ranks_share_cores(MPI_Comm host) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof(mine), &mine);
  cpu_set_t all;
  CPU_ZERO(&all);
  MPI_Allreduce(&mine, &all, sizeof(mine), MPI_BYTE, MPI_BOR, host);
  int ranks = 0;
  MPI_Comm_size(host, &ranks);
  return ranks > CPU_COUNT(&all);
}

std::vector<int> hosts_of_ranks(MPI_Comm comm, MPI_Comm host) {
  int lowest = 0;
  int size = 0;
  MPI_Comm_rank(comm, &lowest);
  MPI_Comm_size(comm, &size);
  check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, host), "MPI_Bcast", host);
  std::vector<int> hosts(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, hosts.data(), 1, MPI_INT, comm), "MPI_Allgather",
            comm);
  return hosts;
}

}  // namespace hanse
