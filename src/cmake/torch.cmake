# LibTorch: the target torch_cpp, where there is one. scripts/setup installs it.
# The wheels on PyPI are built for CUDA, and their CMake files want its compiler; on CPUs the two
# libraries alone do.
set(HANSE_TORCH_WHEEL "" CACHE PATH "torch/ of a Python wheel, for CPUs; empty: find_package(Torch)")
set(HANSE_SECOND_TORCH "" CACHE PATH
    "torch/ of a Python wheel, for CPUs: the target second_torch_cpp, for HANSE_TORCH=newest")

# hanse_torch_target(NAME INCLUDES LIBRARIES)
function(hanse_torch_target name includes libraries)
  add_library(${name} INTERFACE)
  # The wheels bring headers of another fmt among their own, and not its library: ours are found first.
  foreach(include ${includes})
    if(EXISTS ${include}/fmt)
      get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
      file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt_first)
      file(CREATE_LINK ${fmt_include}/fmt ${CMAKE_BINARY_DIR}/fmt_first/fmt SYMBOLIC)
      target_include_directories(${name} INTERFACE ${CMAKE_BINARY_DIR}/fmt_first)
    endif()
  endforeach()
  target_include_directories(${name} SYSTEM INTERFACE ${includes})
  # libstdc++ first: libtorch.so of some wheels exports functions of std::filesystem that end a program
  # which takes them for those of libstdc++.
  target_link_libraries(${name} INTERFACE stdc++ ${libraries})
endfunction()

# hanse_wheel_target(NAME FOLDER): of a Python wheel's folder torch/.
function(hanse_wheel_target name folder)
  hanse_torch_target(${name} "${folder}/include;${folder}/include/torch/csrc/api/include"
                     "${folder}/lib/libtorch_cpu.so;${folder}/lib/libc10.so")
endfunction()

if(HANSE_TORCH_WHEEL)
  hanse_wheel_target(torch_cpp ${HANSE_TORCH_WHEEL})
elseif(HANSE_TORCH STREQUAL ON OR HANSE_CUDA)
  find_package(Torch REQUIRED)
elseif(HANSE_TORCH STREQUAL AUTO)
  find_package(Torch QUIET)
endif()
if(Torch_FOUND)
  hanse_torch_target(torch_cpp "${TORCH_INCLUDE_DIRS}" "${TORCH_LIBRARIES}")
elseif(NOT TARGET torch_cpp)
  message(STATUS "No LibTorch: the models that need it are left out, and the tests")
  return()
endif()
if(HANSE_SECOND_TORCH AND EXISTS ${HANSE_SECOND_TORCH}/version.py)
  hanse_wheel_target(second_torch_cpp ${HANSE_SECOND_TORCH})
  file(STRINGS ${HANSE_SECOND_TORCH}/version.py line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" HANSE_SECOND_TORCH_VERSION "${line}")
endif()
