// The in-process twin of the MPI communicator: ranks are threads of one process.
#pragma once

#include <functional>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Runs `body(comm)` on `ranks` threads, one a rank, and returns when all have ended. When one
// throws, the others' collectives fail with CommError, and the first exception is thrown on.
// REQUIRES: ranks >= 1.
void run_threads(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace hanse
