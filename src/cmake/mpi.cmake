# MPI, and build/lib/mpirun, by which scripts and tests start ranks.
find_package(MPI REQUIRED COMPONENTS CXX)

include(CheckCXXSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
check_cxx_symbol_exists(OPEN_MPI mpi.h HANSE_OPEN_MPI)
unset(CMAKE_REQUIRED_LIBRARIES)

# Debian's `mpiexec` may belong to another MPI tomorrow.
if(IS_SYMLINK ${MPIEXEC_EXECUTABLE})
  file(READ_SYMLINK ${MPIEXEC_EXECUTABLE} alternative)
  if(alternative MATCHES "^/etc/alternatives/")
    file(READ_SYMLINK ${alternative} MPIEXEC_EXECUTABLE)
  endif()
endif()

# Open MPI refuses to start as root, binds each rank to a core and starts no more ranks than cores
# unless asked; it says when another of its programs ends by a signal. Hydra, the launcher of MPICH
# and its family, does none of this.
set(HANSE_MPIRUN_EXPORT "")
set(HANSE_MPIRUN_OPTIONS "")
if(HANSE_OPEN_MPI)
  set(HANSE_MPIRUN_EXPORT
      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
  set(HANSE_MPIRUN_OPTIONS "-q --oversubscribe --use-hwthread-cpus --bind-to none")
endif()
set(HANSE_MPIRUN ${PROJECT_BINARY_DIR}/lib/mpirun)
configure_file(src/cmake/mpirun.in ${HANSE_MPIRUN} @ONLY
               FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                WORLD_READ WORLD_EXECUTE)
