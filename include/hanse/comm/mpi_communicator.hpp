// The communicator over MPI.
#pragma once

#include <memory>

#include "hanse/comm/communicator.hpp"
#include "hanse/comm/mpi_environment.hpp"

namespace hanse {

// All ranks of the run, over a duplicate of MPI_COMM_WORLD with MPI_ERRORS_RETURN. Ranks that wait
// poll for a short while and then sleep between polls, so that they leave their core to others.
// REQUIRES: an MpiEnvironment that outlives it.
std::unique_ptr<Communicator> make_mpi_communicator();

}  // namespace hanse
