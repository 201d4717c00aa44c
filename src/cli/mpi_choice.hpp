// Which MPI a process has: the program is built for every MPI that the build has found, in parts of
// its own, and the launcher loads one of them.
#pragma once

#include <string>

namespace hanse {

struct MpiChoice {
  std::string part;     // file of the program with what includes mpi.h
  std::string library;  // file of MPI's library, to be loaded before; empty: the part brings it
  std::string reason;   // why this library
  std::string error;    // what is wrong, with a hint; empty: nothing
};

// The MPI that HANSE_MPI names, else the one whose launcher (mpirun, srun) has started this
// process, else the first that is found. Its library is looked for beside that launcher, in
// LD_LIBRARY_PATH, where the build has found it, where the loader looks, and beside a wheel.
// `folder` holds the program's libraries, `prefix` is that of a wheel's environment (else empty).
// Cost: some dozens of looks at the file system.
MpiChoice choose_mpi(const std::string& folder, const std::string& prefix);

}  // namespace hanse
