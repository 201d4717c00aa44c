#include "mpi_hosts.hpp"

#include <algorithm>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/comm/agreement.hpp"
#include "mpi_messages.hpp"

namespace hanse {

MPI_Comm split_ranks_by_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type", comm);
  MPI_Comm_set_name(host, "hanse ranks of a host");
  return host;
}

namespace {

cpu_set_t processors_of(pid_t process) {
  cpu_set_t found;
  CPU_ZERO(&found);
  sched_getaffinity(process, sizeof(found), &found);
  return found;
}

}  // namespace

HostShare host_share(MPI_Comm host) {
  const cpu_set_t mine = processors_of(0);
  const cpu_set_t launcher = processors_of(getppid());
  cpu_set_t all;
  CPU_ZERO(&all);
  MPI_Allreduce(&mine, &all, sizeof(mine), MPI_BYTE, MPI_BOR, host);
  HostShare share{.processors = CPU_COUNT(&all), .of_launcher = CPU_COUNT(&launcher)};
  MPI_Comm_size(host, &share.ranks);
  return share;
}

void warn_of_bound_ranks(MPI_Comm comm) {
  MPI_Comm host = split_ranks_by_host(comm);
  const HostShare share = host_share(host);
  MPI_Comm_free(&host);
  int bound = share.bound_together() ? share.ranks : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &bound, 1, MPI_INT, MPI_MAX, comm), "MPI_Allreduce", comm);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (bound == 0 || rank != 0) return;
  warning(
      fmt::format("the {} ranks of a host are bound to fewer processors, and there are more; "
                  "hint: mpirun --bind-to none, or srun --cpu-bind=cores",
                  bound));
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

// Rank 0 makes an unnamed memory file; the others open it through /proc while rank 0 keeps it open.
std::shared_ptr<std::byte> share_memory(Communicator& comm, int64_t bytes) {
  const int64_t length = std::max<int64_t>(bytes, 1);
  int file = -1;
  int64_t address[2] = {getpid(), -1};
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    file = memfd_create("hanse", MFD_CLOEXEC);
    if (file >= 0 && reserve_blocks(file, 0, length)) return;
    const std::string why = errno_text();
    if (file >= 0) close(file);
    throw IoError(fmt::format("no room for {} MiB of shared memory: {}", length >> 20, why),
                  "rank 0 of a host", "use fewer samples or a host with more memory");
  });
  address[1] = file;
  comm.bcast(std::span(address), 0);
  std::shared_ptr<std::byte> memory;
  agree_on(comm, [&] {
    if (comm.rank() != 0) {
      const auto path = fmt::format("/proc/{}/fd/{}", address[0], address[1]);
      file = open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (file < 0) {
        throw IoError("cannot open the host's shared memory: " + errno_text(), path,
                      "the ranks of a host must run as one user and see each other's processes");
      }
    }
    memory = map_open_file(file, length, Access::kWrite);
    if (memory) return;
    throw IoError("cannot map shared memory: " + errno_text(), fmt::format("{} bytes", length));
  });
  close(file);
  return memory;
}

}  // namespace hanse
