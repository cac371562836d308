# SPDX-License-Identifier: Apache-2.0
# Read by CMake at project(): layers whose sources are mutated are compiled one source at a time, so
# that one object takes the place of another.
cmake_language(DEFER CALL set_target_properties lossgrid_problem lossgrid_loss lossgrid_verify lossgrid_runner
               PROPERTIES UNITY_BUILD OFF)
