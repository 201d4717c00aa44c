# Installs the manual: its pages, and the files below the checkout that they link to, so that a link
# leads somewhere there, too. The program's own jobs, data and scripts are installed as they are.
file(GLOB_RECURSE pages RELATIVE ${PROJECT_SOURCE_DIR} jobs/*.md data/*.md scripts/*.md src/*.md)
file(GLOB top RELATIVE ${PROJECT_SOURCE_DIR} *.md)
list(APPEND pages ${top})
file(GLOB manual RELATIVE ${PROJECT_SOURCE_DIR} LICENSE NOTICE CITATION.cff)
list(APPEND manual ${pages})
foreach(page ${pages})
  file(READ ${page} text)
  string(REPLACE "](" "link=\"" text "${text}")
  string(REGEX REPLACE "[][;]" " " text "${text}")  # which part and join CMake's lists
  string(REGEX MATCHALL "(link|src)=\"[A-Za-z0-9_./-]+" links "${text}")
  get_filename_component(folder ${PROJECT_SOURCE_DIR}/${page} DIRECTORY)
  foreach(link ${links})
    string(REGEX REPLACE "^[a-z]+=\"" "" link "${link}")
    get_filename_component(file ${link} ABSOLUTE BASE_DIR ${folder})
    if(EXISTS ${file} AND NOT IS_DIRECTORY ${file})
      file(RELATIVE_PATH file ${PROJECT_SOURCE_DIR} ${file})
      list(APPEND manual ${file})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES manual)
list(FILTER manual EXCLUDE REGEX "^(jobs|data)/")  # installed as whole folders
foreach(file ${manual})
  get_filename_component(folder ${file} DIRECTORY)
  install(FILES ${file} DESTINATION ${share_folder}/${folder})
endforeach()

# The example of an environment module has the folder that was asked for.
install(CODE "
  set(module \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${share_folder}/jobs/modules/hanse.lua\")
  file(READ \"\${module}\" text)
  string(REPLACE \"/apps/hanse\" \"\${CMAKE_INSTALL_PREFIX}\" text \"\${text}\")
  file(WRITE \"\${module}\" \"\${text}\")")
