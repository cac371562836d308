// SPDX-License-Identifier: Apache-2.0
// Cores of the machine that a process may use, and the share of a process in cores that several
// processes may use. Launchers bind processes to cores, or let each process use all cores: both are
// handled.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lossgrid {

struct ProcessCores {
  int rank = 0;            // of the job
  std::vector<int> cores;  // ascending
};

/// Returns the cores that this process may use.
std::vector<int> own_cores();

/// Returns the share of process `rank` in the cores: a core that k of the processes may use counts
/// 1/k. `processes` are the processes of one machine and include `rank`. Only the `ranks` ranks of
/// the job from `first` on count.
double process_core_share(int rank, int first, int ranks, std::span<const ProcessCores> processes);

/// Returns the number of cores that any of the `ranks` ranks of the job from `first` on may use.
int core_count(int first, int ranks, std::span<const ProcessCores> processes);

}  // namespace lossgrid
