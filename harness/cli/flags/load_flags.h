// SPDX-License-Identifier: Apache-2.0
// Flags of commands that take external implementations: their files, and the Python that runs them.
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
  std::string collectives;  // of Python files; empty: LOSSGRID_COLLECTIVES, or auto
  bool isolate = false;
};

void add_load_flags(CLI::App& command, LoadFlags& flags);

/// Returns the files of LOSSGRID_LOAD (separated by colons) and of the flags.
std::vector<std::string> requested_files(const LoadFlags& flags);

/// Returns the interpreter of --python, or the one that is there without it.
std::string requested_python(const LoadFlags& flags);

/// Makes --collectives known to the processes that this one starts.
void hand_on_collectives(const LoadFlags& flags);

/// Throws bad_input for a file that is not there, or is no file of Python and no shared library.
void require_loadable(const std::vector<std::string>& files);

/// Loads the files. Must be called before names of implementations are looked up. `timeout_s` is
/// the deadline of user functions that run before a trial. Throws bad_input.
void load_requested(const LoadFlags& flags, double timeout_s = 300);

}  // namespace lossgrid
