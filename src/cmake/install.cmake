# cmake --install build --prefix P, and cpack. What is installed finds its parts by where it lies, so
# that P may move:
#   bin/hanse, bin/hanse-plot ...    the program and the scripts, as links
#   lib/hanse                        its libraries, and the mpirun that fits it
#   share/hanse                      jobs, data, scripts; a folder like the repository's
#   lib/python3/dist-packages        the package `hanse`, a link
#   include/hanse/plugin.h           for rules in libraries, with files for CMake and pkg-config
set(library_folder lib/hanse)
set(share_folder share/hanse)

# Every user may read what is installed, whatever the umask of who checks out, builds and installs:
# folders that are missing are made so here, and the repository's files below.
set(folders bin ${library_folder} ${share_folder} include/hanse lib/pkgconfig lib/cmake/hanse
            lib/python3/dist-packages share/man/man1 share/bash-completion/completions)
install(CODE "
  foreach(folder ${folders})
    set(path \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${folder}\")
    if(NOT EXISTS \"\${path}\")
      execute_process(COMMAND install -d -m 755 \"\${path}\" COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()")

set(programs hanse hanse-program)
foreach(mpi IN LISTS HANSE_MPIS)
  list(APPEND programs hanse-${mpi})
endforeach()
if(TARGET hanse_torch)
  list(APPEND programs hanse_torch)
endif()
if(TARGET hanse_second_torch)
  list(APPEND programs hanse_second_torch)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION bin
        LIBRARY DESTINATION ${library_folder})
install(PROGRAMS ${HANSE_MPIRUN} DESTINATION ${library_folder})
install(DIRECTORY ${PROJECT_BINARY_DIR}/lib/ DESTINATION ${library_folder}
        FILES_MATCHING PATTERN "hanse-python*.so")

install(DIRECTORY jobs data DESTINATION ${share_folder} USE_SOURCE_PERMISSIONS)
set(installed_scripts bench-scaling convert-traces export-model export-objective fetch-data log-to
                      plot report reproduce results submit sweep)
list(TRANSFORM installed_scripts PREPEND scripts/ OUTPUT_VARIABLE script_files)
install(PROGRAMS ${script_files} DESTINATION ${share_folder}/scripts)
install(DIRECTORY scripts/shared scripts/python scripts/reproductions
        DESTINATION ${share_folder}/scripts USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE
        PATTERN "*.egg-info" EXCLUDE PATTERN build EXCLUDE)

# The manual; and the example of an environment module has the folder that was asked for.
install(CODE "
  set(source \"${PROJECT_SOURCE_DIR}\")
  set(share \"\${CMAKE_INSTALL_PREFIX}/${share_folder}\")
  include(\"\${source}/src/cmake/manual.cmake\")
  set(module \"\$ENV{DESTDIR}\${share}/jobs/modules/hanse.lua\")
  file(READ \"\${module}\" text)
  string(REPLACE \"/apps/hanse\" \"\${CMAKE_INSTALL_PREFIX}\" text \"\${text}\")
  file(WRITE \"\${module}\" \"\${text}\")")

install(CODE "
  execute_process(COMMAND chmod -R a+rX \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${share_folder}\"
                  COMMAND_ERROR_IS_FATAL ANY)")

# The manual page and the completion are what the program says of itself.
set(pages ${PROJECT_BINARY_DIR}/pages)
install(CODE "
  file(MAKE_DIRECTORY ${pages})
  execute_process(COMMAND ${PROJECT_BINARY_DIR}/hanse list --man OUTPUT_FILE ${pages}/hanse.1
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${PROJECT_BINARY_DIR}/hanse list --bash OUTPUT_FILE ${pages}/hanse
                  COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${pages}/hanse.1 DESTINATION share/man/man1)
install(FILES ${pages}/hanse DESTINATION share/bash-completion/completions)

install(FILES include/hanse/plugin.h DESTINATION include/hanse)
configure_file(src/cmake/hanse-plugin.pc.in pages/hanse-plugin.pc @ONLY)
install(FILES ${pages}/hanse-plugin.pc DESTINATION lib/pkgconfig)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${pages}/hanse-config-version.cmake
                                 COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
install(FILES src/cmake/hanse-config.cmake ${pages}/hanse-config-version.cmake
        DESTINATION lib/cmake/hanse)

# Links that stay inside the tree.
set(links "lib/python3/dist-packages/hanse ../../../${share_folder}/scripts/python/hanse")
foreach(script ${installed_scripts})
  list(APPEND links "bin/hanse-${script} ../${share_folder}/scripts/${script}")
endforeach()
foreach(link ${links})
  string(REPLACE " " ";" link "${link}")
  list(GET link 0 name)
  list(GET link 1 target)
  get_filename_component(folder ${name} DIRECTORY)
  install(CODE "
    set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
    file(MAKE_DIRECTORY \"\${prefix}/${folder}\")
    file(CREATE_LINK ${target} \"\${prefix}/${name}\" SYMBOLIC)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${name}\")
    message(STATUS \"Installing: \${prefix}/${name}\")")
endforeach()

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
          -P ${PROJECT_SOURCE_DIR}/src/cmake/uninstall.cmake
  VERBATIM)

# A .deb of Debian's own libraries, LibTorch among them: dpkg-shlibdeps finds their packages.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the people who build it <root@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trainer of federated models on clusters")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The program loads the library of MPI itself, which mpirun's package brings.
set(mpirun_package openmpi-bin)
if(NOT HANSE_OPEN_MPI)
  set(mpirun_package mpich)
endif()
# The OpenBLAS whose threads the program sets; dpkg-shlibdeps would take any.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0-pthread, ${mpirun_package}")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
    "python3, python3-numpy, python3-h5py, python3-matplotlib, python3-pandas, bash-completion")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-torch, python3-scipy, dataset-fashion-mnist")
include(CPack)
