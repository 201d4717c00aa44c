# hanse_module(NAME SOURCES a.cpp ... LINKS lib ...): one static library hanse_NAME.
function(hanse_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(hanse_${name} STATIC ${ARG_SOURCES})
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
endif()
