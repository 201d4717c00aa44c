# LibTorch: the target torch_cpp, where there is one. scripts/setup installs it.
# The wheels on PyPI are built for CUDA, and their CMake files want its compiler; on CPUs the two
# libraries alone do.
set(HANSE_TORCH_WHEEL "" CACHE PATH "torch/ of a Python wheel, for CPUs; empty: find_package(Torch)")
if(HANSE_TORCH_WHEEL)
  set(TORCH_INCLUDE_DIRS ${HANSE_TORCH_WHEEL}/include
                         ${HANSE_TORCH_WHEEL}/include/torch/csrc/api/include)
  set(TORCH_LIBRARIES ${HANSE_TORCH_WHEEL}/lib/libtorch_cpu.so ${HANSE_TORCH_WHEEL}/lib/libc10.so)
elseif(HANSE_TORCH STREQUAL ON OR HANSE_CUDA)
  find_package(Torch REQUIRED)
elseif(HANSE_TORCH STREQUAL AUTO)
  find_package(Torch QUIET)
endif()
if(NOT HANSE_TORCH_WHEEL AND NOT Torch_FOUND)
  message(STATUS "No LibTorch: the models that need it are left out, and the tests")
  return()
endif()
add_library(torch_cpp INTERFACE)
# The wheels bring headers of another fmt among their own, and not its library: ours are found first.
foreach(include ${TORCH_INCLUDE_DIRS})
  if(EXISTS ${include}/fmt)
    get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt_first)
    file(CREATE_LINK ${fmt_include}/fmt ${CMAKE_BINARY_DIR}/fmt_first/fmt SYMBOLIC)
    target_include_directories(torch_cpp INTERFACE ${CMAKE_BINARY_DIR}/fmt_first)
  endif()
endforeach()
target_include_directories(torch_cpp SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
# libstdc++ first: libtorch.so of some wheels exports functions of std::filesystem that end a program
# which takes them for those of libstdc++.
target_link_libraries(torch_cpp INTERFACE stdc++ ${TORCH_LIBRARIES})
