// What every communicator must do, whatever it is made of: run over threads by
// test_thread_communicator.cpp and over MPI by mpi_communicator.cpp.
#pragma once

#include <ostream>
#include <vector>

#include "hanse/comm/communicator.hpp"

namespace hanse {

struct CommunicatorCheck {
  const char* name;
  void (*run)(Communicator&);  // on every rank; uses EXPECT_ only
};

inline void PrintTo(const CommunicatorCheck& check, std::ostream* out) { *out << check.name; }

const std::vector<CommunicatorCheck>& communicator_checks();

// host_checks.cpp has these.
void check_split(Communicator& comm);
void check_allocate_shared(Communicator& comm);
void check_work_queue(Communicator& comm);

}  // namespace hanse
