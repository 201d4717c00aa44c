// MPI in a process: its life, and the communicator over it.
#pragma once

#include <memory>
#include <string>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Initializes MPI for the life of the object and finalizes it in the destructor. Throws
// InvalidArgument where the ranks were started by the mpirun of another MPI.
class MpiEnvironment {
 public:
  MpiEnvironment();
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  // One line on the MPI library; works without initialization.
  static std::string library_version();
};

// All ranks of the run, over a duplicate of MPI_COMM_WORLD with MPI_ERRORS_RETURN. Ranks that wait
// poll for a short while and then sleep between polls, so that they leave their core to others.
// REQUIRES: an MpiEnvironment that outlives it.
std::unique_ptr<Communicator> make_mpi_communicator();

// Ends all ranks at once with this status; for errors that cannot be agreed on. Does not return.
// Where stderr is a pipe, it first waits up to a second until the launcher has read it.
[[noreturn]] void abort_all_ranks(int status);

}  // namespace hanse
