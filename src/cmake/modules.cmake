# Compiles up to twelve sources of a folder as one file: half of a source's time goes to the headers.
# Names in unnamed namespaces are therefore unique among a module's neighbours in a folder. CMake's own
# unity files hold absolute paths, for which the compiler's cache would know no second checkout.
function(hanse_compile_together target)
  set(place ${CMAKE_CURRENT_BINARY_DIR}/together)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" name)
    if(NOT DEFINED count_${name})
      set(count_${name} 0)
    endif()
    math(EXPR group "${count_${name}} / 12")
    math(EXPR count_${name} "${count_${name}} + 1")
    set(file ${place}/${target}_${name}_${group}.cpp)
    list(APPEND files ${file})
    file(RELATIVE_PATH path ${place} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    string(APPEND "text_${file}" "#include \"${path}\"\n")
  endforeach()
  list(REMOVE_DUPLICATES files)
  foreach(file ${files})
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${file}}" @ONLY)
  endforeach()
  set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
  target_sources(${target} PRIVATE ${files})
endfunction()

# What most sources include, compiled once for all modules, and once more for the cold ones:
# GCC takes a precompiled header for the flags alone that it was made with.
function(hanse_common_headers name)
  set(source ${CMAKE_BINARY_DIR}/generated/common_headers.cpp)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "")
  endif()
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE fmt::fmt ${ARGN})
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional> <limits> <map> <memory>
    <numeric> <optional> <span> <string> <string_view> <unordered_map> <utility> <vector>
    <fmt/format.h>)
endfunction()

# Modules that no training waits for are compiled for the compiler's time. -O1 gives the same bits.
set(HANSE_COLD_MODULES cli job kinds plugin run store)

# hanse_module(NAME SOURCES a.cpp ... [APART b.cpp ...] LINKS lib ...): one static library hanse_NAME.
#   APART  sources that are compiled alone: tables of kinds, whose names are Options and key
function(hanse_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(hanse_${name} STATIC ${ARG_SOURCES} ${ARG_APART})
  set(flags hanse_flags)
  set(headers hanse_headers)
  if(name IN_LIST HANSE_COLD_MODULES)
    list(APPEND flags hanse_cold_flags)
    set(headers hanse_cold_headers)
  endif()
  if(HANSE_UNITY)
    hanse_compile_together(hanse_${name} ${ARG_SOURCES})
  endif()
  if(TARGET ${headers})
    target_precompile_headers(hanse_${name} REUSE_FROM ${headers})
  endif()
  target_include_directories(hanse_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_BINARY_DIR}/generated)
  target_include_directories(hanse_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/${name})
  target_link_libraries(hanse_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS} ${flags})
endfunction()

# A library that is loaded shows others its own names alone: exports.map.
function(hanse_keep_names target)
  set(exports ${PROJECT_SOURCE_DIR}/src/cmake/exports.map)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${exports}")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${exports})
endfunction()

# Flags of our own code. Contraction is off: a fused multiply-add on one machine and not on another
# would change bits. Traps and errno are not used; without them loops vectorize.
add_library(hanse_flags INTERFACE)
target_compile_options(hanse_flags INTERFACE -Wall -Wextra -Wshadow -Wno-unknown-pragmas
                       -Wno-missing-field-initializers
                       -ffp-contract=off -fno-math-errno -fno-trapping-math)
target_compile_options(hanse_flags INTERFACE $<$<CONFIG:Release>:-O3>)
if(HANSE_SANITIZE)
  add_compile_options(-fsanitize=${HANSE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HANSE_SANITIZE})
  add_library(hanse_keep_loaded OBJECT ${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_loaded.c)
  target_sources(hanse_flags INTERFACE $<TARGET_OBJECTS:hanse_keep_loaded>)
endif()
add_library(hanse_cold_flags INTERFACE)
target_compile_options(hanse_cold_flags INTERFACE $<$<CONFIG:Release>:-O1>)
if(HANSE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  hanse_common_headers(hanse_headers hanse_flags)
  hanse_common_headers(hanse_cold_headers hanse_flags hanse_cold_flags)
endif()
