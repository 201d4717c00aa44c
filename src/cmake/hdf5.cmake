# HDF5: the target hdf5. A process writes its own files or its own parts of one: no parallel HDF5 is
# needed.
set(HANSE_HDF5 AUTO CACHE STRING
    "HDF5: STATIC, SHARED (a parallel one, too: HDF5_PREFER_PARALLEL), or AUTO: static where it is found")
add_library(hdf5 INTERFACE)

if(NOT HANSE_HDF5 STREQUAL SHARED)
  # The static library needs little. Debian's shared one brings half of all libraries: those of the web,
  # of directories and of their secrets.
  find_path(HANSE_HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(HANSE_HDF5_ARCHIVE libhdf5.a PATH_SUFFIXES hdf5/serial)
  find_library(HANSE_SZIP_LIBRARY sz)
endif()
if(HANSE_HDF5_INCLUDE AND HANSE_HDF5_ARCHIVE AND HANSE_SZIP_LIBRARY)
  file(STRINGS ${HANSE_HDF5_INCLUDE}/H5pubconf.h parallel REGEX "define H5_HAVE_PARALLEL 1")
endif()
if(HANSE_HDF5_INCLUDE AND HANSE_HDF5_ARCHIVE AND HANSE_SZIP_LIBRARY AND NOT parallel)
  file(STRINGS ${HANSE_HDF5_INCLUDE}/H5public.h HDF5_VERSION REGEX "define H5_VERS_INFO ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" HDF5_VERSION "${HDF5_VERSION}")
  set(HDF5_IS_PARALLEL OFF)
  # Debian compiles the archive for programs, which may take libc's `stderr` for their own. A library
  # may not: its HDF5 has pointers of its own (hdf5_streams.c).
  set(archive ${PROJECT_BINARY_DIR}/hdf5/libhdf5.a)
  if(${HANSE_HDF5_ARCHIVE} IS_NEWER_THAN ${archive})
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/hdf5)
    execute_process(COMMAND ${CMAKE_OBJCOPY} --redefine-sym stdout=hanse_hdf5_stdout
                            --redefine-sym stderr=hanse_hdf5_stderr ${HANSE_HDF5_ARCHIVE} ${archive}
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  set(HANSE_HDF5_IS_STATIC ON)
  target_include_directories(hdf5 SYSTEM INTERFACE ${HANSE_HDF5_INCLUDE})
  # Nobody else sees its functions: LibTorch may load another HDF5 into the process.
  target_link_options(hdf5 INTERFACE LINKER:--exclude-libs,libhdf5.a:libhdf5_streams.a)
  target_link_libraries(hdf5 INTERFACE ${archive} hdf5_streams ${HANSE_SZIP_LIBRARY} ZLIB::ZLIB
                                       Threads::Threads ${CMAKE_DL_LIBS} m)
elseif(HANSE_HDF5 STREQUAL STATIC)
  message(FATAL_ERROR "No static HDF5 was found: install libhdf5-dev (scripts/setup)")
else()
  find_package(HDF5 REQUIRED COMPONENTS C)
  target_include_directories(hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
  target_link_libraries(hdf5 INTERFACE ${HDF5_LIBRARIES})
  if(HDF5_IS_PARALLEL)  # its header includes mpi.h
    target_link_libraries(hdf5 INTERFACE MPI::MPI_C)
    target_compile_definitions(hdf5 INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  endif()
endif()
message(STATUS "HDF5: ${HDF5_VERSION}")
