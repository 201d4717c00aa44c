# Everything Hanse is built on. scripts/setup installs it.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
include(src/cmake/hdf5.cmake)
include(src/cmake/mpi.cmake)
find_package(PNG 1.6 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(nlohmann_json REQUIRED)

# Pictures: libjpeg-turbo by its own interface.
find_path(TURBOJPEG_INCLUDE turbojpeg.h REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
add_library(turbojpeg INTERFACE)
target_include_directories(turbojpeg SYSTEM INTERFACE ${TURBOJPEG_INCLUDE})
target_link_libraries(turbojpeg INTERFACE ${TURBOJPEG_LIBRARY})

# Secrets: ChaCha20 and BLAKE2b.
find_path(SODIUM_INCLUDE sodium.h REQUIRED)
find_library(SODIUM_LIBRARY sodium REQUIRED)
add_library(sodium INTERFACE)
target_include_directories(sodium SYSTEM INTERFACE ${SODIUM_INCLUDE})
target_link_libraries(sodium INTERFACE ${SODIUM_LIBRARY})

# OpenBLAS and no other BLAS: the reference BLAS is thirty times slower.
find_path(OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread
          x86_64-linux-gnu/openblas-pthread)
find_library(OPENBLAS_LIBRARY openblas REQUIRED)
add_library(openblas INTERFACE)
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE})
target_link_libraries(openblas INTERFACE ${OPENBLAS_LIBRARY})

# Device buffers travel by NCCL. LibTorch's own CMake files bring CUDA.
if(HANSE_CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(nccl_places ${NCCL_ROOT} $ENV{NCCL_ROOT} ${NCCL_HOME} $ENV{NCCL_HOME})  # of sites' modules
  find_path(NCCL_INCLUDE nccl.h HINTS ${nccl_places} PATH_SUFFIXES include REQUIRED)
  find_library(NCCL_LIBRARY nccl HINTS ${nccl_places} PATH_SUFFIXES lib lib64 REQUIRED)
  add_library(cuda_nccl INTERFACE)
  target_include_directories(cuda_nccl SYSTEM INTERFACE ${NCCL_INCLUDE})
  target_link_libraries(cuda_nccl INTERFACE CUDA::cudart ${NCCL_LIBRARY})
endif()

find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(RANDOM123_INCLUDE Random123/philox.h REQUIRED)
