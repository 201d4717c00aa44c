// What the launcher (src/cli/launcher.cpp) hands to the program.
#pragma once

namespace hanse {

struct Start {
  double seconds = 0;            // monotonic_seconds() at the start of the process
  const char* program = "";      // which installation it is, and where
  const char* share = "";        // folder of an installation's jobs and data; empty: a build
  const char* mpi_library = "";  // the file of MPI's library, and why it was taken
};

}  // namespace hanse
