// SPDX-License-Identifier: Apache-2.0
// Command line of a launch of --supervise: a launcher such as mpirun, this executable, and the
// arguments of the supervisor without the supervisor's own flags.
#pragma once

#include <string>
#include <vector>

namespace lossgrid {

struct LaunchRequest {
  std::string launcher;  // "mpirun -np {ranks}", in the syntax of a shell; empty: no launcher
  std::string executable;
  std::vector<std::string> arguments;  // of the supervisor
  int ranks = 1;                       // value of {ranks}
  std::string grid;                    // the only grid of the launch; empty: all grids of the run
  std::string report;                  // of the launch
  std::string resume;                  // report to resume from; empty: as in the arguments
};

/// Returns the words of the command. A launcher is parsed by a shell, which it then replaces.
std::vector<std::string> launch_command(const LaunchRequest& request);

/// Returns the command as one line, for a reader or a shell.
std::string launch_line(const LaunchRequest& request);

}  // namespace lossgrid
