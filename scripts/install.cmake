# SPDX-License-Identifier: Apache-2.0
# The install tree: bin, lib and share under a prefix that may be moved afterwards. The executable
# finds the rest from its own place.
include(CMakePackageConfigHelpers)

install(TARGETS lossgrid RUNTIME DESTINATION bin)
install(DIRECTORY cases/ DESTINATION share/lossgrid/cases PATTERN objectives EXCLUDE)
install(DIRECTORY impls/objectives DESTINATION share/lossgrid/cases FILES_MATCHING PATTERN cases.json)
install(DIRECTORY python/lossgrid DESTINATION share/lossgrid/python FILES_MATCHING PATTERN "*.py" PATTERN "conventions.json"
                                                                    PATTERN "py.typed")
install(DIRECTORY impls/frameworks/ DESTINATION share/lossgrid/frameworks
        FILES_MATCHING PATTERN "*.py" PATTERN "versions.json" PATTERN findings EXCLUDE)
install(DIRECTORY reports/schema/ DESTINATION share/lossgrid/schema FILES_MATCHING PATTERN "*.json")
install(DIRECTORY reports/policies/ DESTINATION share/lossgrid/policies FILES_MATCHING PATTERN "*.json")

# Before 1.0 a minor version may break a plugin.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lossgridConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lossgridConfigVersion.cmake DESTINATION lib/cmake/lossgrid)

# Component `bundle`: the shared libraries of the executable that a machine without this project's
# packages lacks. RPATH, unlike RUNPATH, also serves the libraries' own needs, and goes before
# LD_LIBRARY_PATH.
set_target_properties(lossgrid PROPERTIES INSTALL_RPATH "$ORIGIN/../share/lossgrid/lib")
target_link_options(lossgrid PRIVATE LINKER:--disable-new-dtags)
install(CODE "set(LOSSGRID_EXECUTABLE \"$<TARGET_FILE:lossgrid>\")" COMPONENT bundle EXCLUDE_FROM_ALL)
install(SCRIPT scripts/bundle_libraries.cmake COMPONENT bundle EXCLUDE_FROM_ALL)
if(has_cutlass)  # its kernel is in the executable
  file(GLOB cutlass_license
       ${LOSSGRID_CUTLASS_INCLUDE_DIR}/../../../nvidia_cutlass-*.dist-info/licenses/LICENSE.txt)
  install(FILES ${cutlass_license} DESTINATION share/lossgrid/licenses RENAME nvidia-cutlass
          COMPONENT bundle EXCLUDE_FROM_ALL)
endif()
