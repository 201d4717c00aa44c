// The life of MPI in a process.
#pragma once

#include <string>

namespace hanse {

// Initializes MPI for the life of the object and finalizes it in the destructor.
class MpiEnvironment {
 public:
  MpiEnvironment();
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  // Was the process started by mpirun, srun or another launcher of ranks?
  static bool launched();
  // One line on the MPI library; works without initialization.
  static std::string library_version();
};

// Ends all ranks at once with this status; for errors that cannot be agreed on. Does not return.
[[noreturn]] void abort_all_ranks(int status);

}  // namespace hanse
