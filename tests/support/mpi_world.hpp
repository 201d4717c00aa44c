// The communicator of a test program that mpirun started (mpi_main.cpp).
#pragma once

#include "hanse/comm/communicator.hpp"

namespace hanse {

// All ranks run the same tests in the same order. A test that communicates uses EXPECT_, never
// ASSERT_: a rank that leaves early would leave the others waiting. What is expected is for rank 0
// alone to compute.
Communicator& mpi_world();

}  // namespace hanse
