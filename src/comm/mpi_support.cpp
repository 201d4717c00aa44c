#include "mpi_support.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"

namespace hanse {

namespace {

cpu_set_t processors_of(pid_t process) {
  cpu_set_t found;
  CPU_ZERO(&found);
  sched_getaffinity(process, sizeof(found), &found);
  return found;
}

}  // namespace

void check_mpi(int code, const char* operation, MPI_Comm comm) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  throw CommError(fmt::format("{} failed: {}", operation, text), rank, code);
}

MPI_Datatype mpi_type(ElementType type) {
  switch (type) {
    case ElementType::kInt64: return MPI_INT64_T;
    case ElementType::kDouble: return MPI_DOUBLE;
    case ElementType::kFloat: return MPI_FLOAT;
    case ElementType::kByte: return MPI_UINT8_T;  // MPI has no sum of MPI_BYTE
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return MPI_SUM;
    case ReduceOp::kMin: return MPI_MIN;
    case ReduceOp::kMax: return MPI_MAX;
  }
  return MPI_OP_NULL;
}

MPI_Comm split_ranks_by_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type", comm);
  MPI_Comm_set_name(host, "hanse ranks of a host");
  return host;
}

// MPI's colours are ints: the first rank of a colour gives its number to MPI.
MPI_Comm split_ranks(MPI_Comm comm, int64_t colour) {
  if (colour == kByHost) return split_ranks_by_host(comm);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<int64_t> colours(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&colour, 1, MPI_INT64_T, colours.data(), 1, MPI_INT64_T, comm),
            "MPI_Allgather", comm);
  const auto first = std::ranges::find(colours, colour) - colours.begin();
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, static_cast<int>(first), rank, &part), "MPI_Comm_split", comm);
  MPI_Comm_set_name(part, "hanse ranks of a colour");
  return part;
}

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

}  // namespace hanse
