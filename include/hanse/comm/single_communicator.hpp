// The communicator of a program that runs alone.
#pragma once

#include <memory>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// One rank, without MPI: nothing is sent and nobody waits.
std::unique_ptr<Communicator> make_single_communicator();

}  // namespace hanse
