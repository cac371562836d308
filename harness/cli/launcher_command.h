// SPDX-License-Identifier: Apache-2.0
// The command line of a launch of --supervise: a launcher such as mpirun, this executable, and the
// arguments of the supervisor without its own flags.
#pragma once

#include <string>
#include <vector>

namespace lossgrid {

struct LaunchRequest {
  std::string launcher;  // "mpirun -np {ranks}", as a shell reads it; empty: none
  std::string executable;
  std::vector<std::string> arguments;  // of the supervisor
  int ranks = 1;                       // value of {ranks}
  std::string grid;                    // the only grid of the launch; empty: those of the run
  std::string report;                  // of the launch
  std::string resume;                  // report that it takes over; empty: that of the arguments
};

/// Returns the words to start. A launcher is read by a shell, which it then replaces.
std::vector<std::string> launch_command(const LaunchRequest& request);

/// Returns the same as one line, for a reader or for a shell.
std::string launch_line(const LaunchRequest& request);

}  // namespace lossgrid
