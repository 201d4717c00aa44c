// What the launcher of ranks (mpirun, mpiexec, srun) leaves in a process. Open MPI and the family
// of MPICH (MPICH, Intel MPI, Cray MPICH) differ here alone and in the options of mpirun
// (src/cmake/mpi.cmake).
#pragma once

namespace hanse {

// Was the process started as a rank?
bool started_as_rank();

// This rank and the number of ranks, as the launcher counts them; 0 where it does not say. Ask
// before MPI begins, which may write other numbers into the environment.
struct Launch {
  int rank = 0;
  int ranks = 0;
  // Slurm started the process as a task of a step; no MPI tells. A batch script is no task, nor is
  // an interactive shell (srun --pty).
  bool by_slurm = false;
};
Launch launch();

// Is the process one of several that a launcher started itself, and not by a script or a program in
// between, which may give each rank a command of its own? False in a shell of a batch job.
bool started_in_a_row();

// The process of the mpirun that started this rank and writes its ranks' output; 0: none.
int mpirun_process();

}  // namespace hanse
