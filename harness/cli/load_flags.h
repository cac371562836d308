// SPDX-License-Identifier: Apache-2.0
// The flags of commands that take implementations from outside: which files, and the Python that
// runs them.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lossgrid {

struct LoadFlags {
  std::vector<std::string> files;
  std::string python;
};

void add_load_flags(CLI::App& command, LoadFlags& flags);

/// What the flags and LOSSGRID_LOAD (files, separated by colons) name.
std::vector<std::string> requested_files(const LoadFlags& flags);

/// Loads them; call it before names of implementations are looked up. `timeout_s`: for functions
/// that are asked before a trial. Throws bad_input.
void load_requested(const LoadFlags& flags, double timeout_s = 300);

}  // namespace lossgrid
