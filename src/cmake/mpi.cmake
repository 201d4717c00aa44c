# MPI, and build/lib/mpirun, by which scripts and tests start ranks. What includes mpi.h is compiled once
# for each MPI that is here: hanse_mpi_openmpi and hanse_mpi_mpich, of which the program loads the one
# that its ranks were started with (src/cli/mpi_choice.cpp). The targets mpi_NAME have the headers, and
# mpi_NAME_library the library, which the program itself does not link.
find_package(MPI REQUIRED COMPONENTS C)

include(CheckSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_symbol_exists(OPEN_MPI mpi.h HANSE_OPEN_MPI)
unset(CMAKE_REQUIRED_LIBRARIES)

# hanse_mpi(NAME INCLUDES LIBRARY MPIEXEC)
function(hanse_mpi name includes library mpiexec)
  add_library(mpi_${name} INTERFACE)
  target_include_directories(mpi_${name} SYSTEM INTERFACE ${includes})
  # Without the bindings of C++: Open MPI 5 no longer has their library.
  target_compile_definitions(mpi_${name} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  add_library(mpi_${name}_library INTERFACE)
  target_link_libraries(mpi_${name}_library INTERFACE mpi_${name} ${ARGN} ${library})
  # Debian's `mpiexec` and `libmpi.so` may belong to another MPI tomorrow.
  foreach(found library mpiexec)
    if(IS_SYMLINK ${${found}})
      file(READ_SYMLINK ${${found}} alternative)
      if(alternative MATCHES "^/etc/alternatives/")
        file(READ_SYMLINK ${alternative} ${found})
      endif()
    endif()
  endforeach()
  get_filename_component(folder ${library} REALPATH)
  get_filename_component(folder ${folder} DIRECTORY)
  string(TOUPPER ${name} upper)
  set(HANSE_${upper}_FOLDER ${folder} PARENT_SCOPE)
  set(HANSE_${upper}_MPIEXEC ${mpiexec} PARENT_SCOPE)
  set(HANSE_MPIS ${HANSE_MPIS} ${name} PARENT_SCOPE)
endfunction()

set(first_mpi mpich)
set(other_mpi openmpi)
if(HANSE_OPEN_MPI)
  set(first_mpi openmpi)
  set(other_mpi mpich)
endif()
list(GET MPI_C_LIBRARIES 0 first_library)
hanse_mpi(${first_mpi} "${MPI_C_INCLUDE_DIRS}" ${first_library} ${MPIEXEC_EXECUTABLE} MPI::MPI_C)

# The other one by its compiler, as Debian names it. A parallel HDF5 belongs to the first alone.
find_program(HANSE_OTHER_MPI_COMPILER mpicc.${other_mpi})
find_program(HANSE_OTHER_MPIEXEC mpiexec.${other_mpi})
if(HANSE_OTHER_MPI_COMPILER AND HANSE_OTHER_MPIEXEC AND NOT HDF5_IS_PARALLEL)
  execute_process(COMMAND ${HANSE_OTHER_MPI_COMPILER} -show OUTPUT_VARIABLE words
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(words)
  set(includes ${words})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  set(folders ${words})
  list(FILTER folders INCLUDE REGEX "^-L")
  list(TRANSFORM folders REPLACE "^-L" "")
  find_library(HANSE_OTHER_MPI_LIBRARY NAMES mpich mpi PATHS ${folders} NO_DEFAULT_PATH)
  if(HANSE_OTHER_MPI_LIBRARY)
    hanse_mpi(${other_mpi} "${includes}" ${HANSE_OTHER_MPI_LIBRARY} ${HANSE_OTHER_MPIEXEC})
  endif()
endif()
message(STATUS "MPI: ${HANSE_MPIS}")

set(HANSE_FIRST_MPI ${first_mpi})
set(quiet)
if(HANSE_OPENMPI_MPIEXEC)
  execute_process(COMMAND ${HANSE_OPENMPI_MPIEXEC} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES "\\((OpenRTE|Open MPI)\\) [1-4]\\.")  # from 5 on it does not know -q
    set(quiet -q)
  endif()
endif()
set(HANSE_MPIRUN ${PROJECT_BINARY_DIR}/lib/mpirun)
configure_file(src/cmake/mpirun.in ${HANSE_MPIRUN} @ONLY
               FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                WORLD_READ WORLD_EXECUTE)
