// SPDX-License-Identifier: Apache-2.0
// Launcher program for Python files: an interpreter with the package of lossgrid.
#pragma once

#include <string>

#include "harness/external/worker_launcher.h"

namespace lossgrid {

/// Returns the program that runs `python` (in PATH, or a path) with the package in PYTHONPATH.
/// Throws bad_input if the package is not found.
WorkerProgram python_program(const std::string& python);

/// Returns the folder with the Python package: beside or above the executable, or in the
/// installation. Throws bad_input if the package is not found.
std::string python_package_folder();

}  // namespace lossgrid
