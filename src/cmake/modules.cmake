# Compiles up to eight sources of a folder as one file: half of a source's time goes to the headers.
# Names in unnamed namespaces are therefore unique among a module's neighbours in a folder.
function(hanse_compile_together target)
  set(count 0)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    math(EXPR group "${count} / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${group}")
    math(EXPR count "${count} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# hanse_module(NAME SOURCES a.cpp ... [APART b.cpp ...] LINKS lib ...): one static library hanse_NAME.
#   APART  sources that are compiled alone: tables of kinds, whose names are Options and key
function(hanse_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(hanse_${name} STATIC ${ARG_SOURCES} ${ARG_APART})
  if(HANSE_UNITY)
    hanse_compile_together(hanse_${name} ${ARG_SOURCES})
  endif()
  target_include_directories(hanse_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_BINARY_DIR}/generated)
  target_include_directories(hanse_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/${name})
  target_link_libraries(hanse_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS} hanse_flags)
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
