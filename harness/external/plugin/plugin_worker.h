// SPDX-License-Identifier: Apache-2.0
// Worker processes of plugins (python/PROTOCOL.md): this program, started again by its hidden
// command `plugin-worker FD`, is the launcher, opens the library and forks a worker for each rank.
// A worker runs one plan at a time on its own device; the host makes its collectives.
#pragma once

#include "harness/external/worker_launcher.h"

namespace lossgrid {

inline constexpr const char* kPluginWorkerCommand = "plugin-worker";

/// Returns this executable as the program of launchers.
WorkerProgram plugin_worker_program();

/// Runs a launcher on the socket `descriptor` until its stream ends, and returns the exit code of
/// the process. Forked workers never return.
int run_plugin_launcher(int descriptor);

}  // namespace lossgrid
