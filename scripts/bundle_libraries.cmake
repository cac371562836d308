# SPDX-License-Identifier: Apache-2.0
# Copies the shared libraries that LOSSGRID_EXECUTABLE needs into share/lossgrid/lib of the install prefix,
# each under the name by which it is looked up. Left to the machine are glibc and the libraries of
# GCC's C++ run time, which every Linux has and which plugins share, and MPI and what it brings,
# which belong to its launcher.
set(of_machine "^(ld-linux.*|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\\+\\+)\\.so")
set(of_mpi "^lib(mpi|open-rte|open-pal)[^/]*\\.so")
file(GET_RUNTIME_DEPENDENCIES
     EXECUTABLES ${LOSSGRID_EXECUTABLE}
     RESOLVED_DEPENDENCIES_VAR libraries
     UNRESOLVED_DEPENDENCIES_VAR missing
     PRE_EXCLUDE_REGEXES ${of_machine} ${of_mpi})
if(missing)
  message(FATAL_ERROR "no library for ${missing}, which ${LOSSGRID_EXECUTABLE} needs")
endif()
set(folder $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/lossgrid/lib)
file(MAKE_DIRECTORY ${folder})
foreach(library IN LISTS libraries)
  get_filename_component(name ${library} NAME)
  file(REAL_PATH ${library} content)
  message(STATUS "Installing: ${folder}/${name}")
  file(COPY_FILE ${content} ${folder}/${name})
  file(CHMOD ${folder}/${name} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
