# find_package(hanse): the target hanse::plugin has the header of rules in libraries.
get_filename_component(hanse_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hanse::plugin)
  add_library(hanse::plugin INTERFACE IMPORTED)
  set_target_properties(hanse::plugin PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
                        ${hanse_prefix}/include)
endif()
