// MPI in a process: its life, and the communicator over it.
#pragma once

#include <memory>
#include <string>

#include "hanse/base/mpirun.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Initializes MPI for the life of the object and finalizes it in the destructor.
class MpiEnvironment {
 public:
  MpiEnvironment();
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  // One line on the MPI library; works without initialization.
  static std::string library_version();
};

// The communicator of all ranks of the run, over a duplicate of MPI_COMM_WORLD with
// MPI_ERRORS_RETURN. Ranks that wait poll for a short while and then sleep between polls, so that
// they leave their core to others. REQUIRES: an MpiEnvironment that outlives it.
std::unique_ptr<Communicator> make_mpi_communicator();

// Throws InvalidArgument where a launcher has started more ranks than the `known` ones of the run,
// which is one: it is the mpirun of another MPI, or srun without PMI. The first rank that knows it
// says so; the others end by the same status a second later, which leaves it the time.
void require_all_ranks(int known, const Launch& launch);

// Ends all ranks at once with this status, for errors that cannot be agreed on. Does not return.
// Where stderr is a pipe, it first waits up to a second until the launcher has read it.
[[noreturn]] void abort_all_ranks(int status);

}  // namespace hanse
