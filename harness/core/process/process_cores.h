// SPDX-License-Identifier: Apache-2.0
// Cores of the machine that a process may use, and its share of them if other processes may use
// them too. Launchers bind processes to cores or leave all cores to each: both are handled.
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
/// 1/k. `processes` are those of one machine, `rank` among them; only the `ranks` ranks of the job
/// from `first` on count.
double core_share_of(int rank, int first, int ranks, std::span<const ProcessCores> processes);

/// Returns the number of cores that any of the `ranks` ranks of the job from `first` on may use.
int cores_of(int first, int ranks, std::span<const ProcessCores> processes);

}  // namespace lossgrid
