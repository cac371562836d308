// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/cases_flag.h"

#include <string>

#include <CLI/CLI.hpp>

#include "harness/problem/case/suite.h"

namespace lossgrid {

void add_cases_flag(CLI::App& command) {
  command.add_option_function<std::string>(
      "--cases", use_cases,
      "take suites and models of this folder (also: LOSSGRID_CASES_DIR; default: those that came "
      "with the executable)");
}

}  // namespace lossgrid
