// What the launcher of ranks (mpirun, mpiexec, srun) leaves in a process: all that differs between
// Open MPI and the family of MPICH (MPICH, Intel MPI, Cray MPICH), but for the options of mpirun
// (src/cmake/mpi.cmake).
#pragma once

namespace hanse {

// Was the process started as a rank?
bool started_as_rank();

// As the launcher counts: this rank, and how many it has started; 0 where it does not say. To be
// asked before MPI begins, which may write other numbers into the environment.
struct Launch {
  int rank = 0;
  int ranks = 0;
  // The tasks of a step of Slurm, of which no MPI says anything. A batch script is none, nor is an
  // interactive shell (srun --pty).
  bool by_slurm = false;
};
Launch launch();

// The process of the mpirun that started this rank and writes what its ranks say; 0: none.
int mpirun_process();

}  // namespace hanse
