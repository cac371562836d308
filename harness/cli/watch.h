// SPDX-License-Identifier: Apache-2.0
// `lossgrid run --watch`: a process that runs no trials itself, but starts this executable without
// the flag, again whenever a loaded file changes. PyTorch is imported once: each run gets a
// launcher that was forked from a process which has imported it.
#pragma once

#include "harness/cli/flags/suite_flags.h"
#include "harness/core/error.h"

namespace CLI {
class App;
}

namespace lossgrid {

void add_watch_flag(CLI::App& command, bool& is_on);

/// Throws usage if there is nothing to watch, or the flags ask for what one run alone can do.
void require_watchable(const SuiteFlags& flags);

/// Runs the arguments of this process until an interrupt: one during a run ends with the exit code
/// of that run, SIGINT between two runs with that of the last one. Throws bad_input if a file is
/// not there at the start, or there is no PyTorch.
ExitCode watch(const SuiteFlags& flags);

}  // namespace lossgrid
