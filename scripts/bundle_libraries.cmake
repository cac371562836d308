# SPDX-License-Identifier: Apache-2.0
# Copies the shared libraries that LOSSGRID_EXECUTABLE needs into share/lossgrid/lib of the install prefix,
# each under the name by which it is looked up, and into share/lossgrid/licenses the licenses of all
# that is handed on. Left to the machine are glibc and the libraries of GCC's C++ run time, which every
# Linux has and which plugins share, and MPI and what it brings, which belong to its launcher.
set(of_machine "^(ld-linux.*|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\\+\\+)\\.so")
set(of_mpi "^lib(mpi|open-rte|open-pal)[^/]*\\.so")
set(compiled_in nlohmann-json3-dev libcli11-dev libvalijson-dev libjs-chart.js)
file(GET_RUNTIME_DEPENDENCIES
     EXECUTABLES ${LOSSGRID_EXECUTABLE}
     RESOLVED_DEPENDENCIES_VAR libraries
     UNRESOLVED_DEPENDENCIES_VAR missing
     PRE_EXCLUDE_REGEXES ${of_machine} ${of_mpi})
if(missing)
  message(FATAL_ERROR "no library for ${missing}, which ${LOSSGRID_EXECUTABLE} needs")
endif()
set(folder $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/lossgrid)
file(MAKE_DIRECTORY ${folder}/lib ${folder}/licenses)

# Copies `source`, or what a link of this name leads to.
function(copy_content source destination)
  file(REAL_PATH ${source} content)
  message(STATUS "Installing: ${destination}")
  file(COPY_FILE ${content} ${destination})
  file(CHMOD ${destination} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endfunction()

find_program(dpkg_query dpkg-query)
set(packages ${compiled_in})
foreach(library IN LISTS libraries)
  get_filename_component(name ${library} NAME)
  copy_content(${library} ${folder}/lib/${name})
  file(REAL_PATH ${library} content)
  get_filename_component(file ${content} NAME)
  cmake_path(GET content PARENT_PATH of_machine)
  get_filename_component(of_machine ${of_machine} NAME)
  if(dpkg_query)
    # With the folder of the processor, as cross compilers have libraries of the same name; without
    # the path before it, which packages know as /lib or /usr/lib.
    execute_process(COMMAND ${dpkg_query} -S */${of_machine}/${file}
                    OUTPUT_VARIABLE owner ERROR_QUIET)
    string(REGEX REPLACE ":.*" "" owner "${owner}")
    list(APPEND packages ${owner})
  endif()
endforeach()
foreach(package IN LISTS packages)
  if(EXISTS /usr/share/doc/${package}/copyright)
    copy_content(/usr/share/doc/${package}/copyright ${folder}/licenses/${package})
  endif()
endforeach()
