# SPDX-License-Identifier: Apache-2.0
# Writes the header OUT with the revision of the git repository SOURCE, as LOSSGRID_GIT_REVISION: the
# short hash of HEAD, with "-dirty" appended if a source of the program is modified or new. The text is
# empty if SOURCE is not the root of a repository, such as a released archive, or if git is missing.
# Run at every build; an unchanged header keeps its time stamp, so that nothing is compiled anew.
#   cmake -DSOURCE=FOLDER -DOUT=FILE -P git_revision.cmake
set(sources CMakeLists.txt CMakePresets.json cases harness impls reports)

# Sets `out` to the output of git, and `worked` to TRUE if git succeeded.
function(ask_git out worked)
  # Containers build as root in folders of other users.
  execute_process(COMMAND git --no-optional-locks -c safe.directory=* -C ${SOURCE} ${ARGN}
                  OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE status ERROR_QUIET)
  set(${out} "${text}" PARENT_SCOPE)
  set(${worked} FALSE PARENT_SCOPE)
  if(status STREQUAL "0")
    set(${worked} TRUE PARENT_SCOPE)
  endif()
endfunction()

set(revision "")
ask_git(folder is_in_repository rev-parse --show-prefix)
if(is_in_repository AND folder STREQUAL "")
  ask_git(revision has_commits rev-parse --short HEAD)
  ask_git(changes is_known status --porcelain -- ${sources})
  if(NOT has_commits)
    set(revision "")
  elseif(changes OR NOT is_known)
    string(APPEND revision "-dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define LOSSGRID_GIT_REVISION \"${revision}\"\n")
