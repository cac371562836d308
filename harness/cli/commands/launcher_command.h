// SPDX-License-Identifier: Apache-2.0
// The command line that a supervised run starts: a launcher such as mpirun, this executable, and
// the arguments that were given to the supervisor, without those that are its own.
#pragma once

#include <string>
#include <vector>

namespace lossgrid {

struct LaunchRequest {
  std::string launcher;  // "mpirun -np {ranks}", as a shell reads it; empty: none
  std::string executable;
  std::vector<std::string> arguments;  // of the supervisor
  int ranks = 1;                       // what {ranks} stands for
  std::string grid;                    // the only grid of the launch; empty: those of the run
  std::string report;                  // of the launch
  std::string resume;                  // what it takes over; empty: what the arguments say
};

/// The words to start. With a launcher a shell reads it and is replaced by it.
std::vector<std::string> launch_command(const LaunchRequest& request);

/// The same as one line to be read, or given to a shell.
std::string launch_line(const LaunchRequest& request);

}  // namespace lossgrid
