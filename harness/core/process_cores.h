// SPDX-License-Identifier: Apache-2.0
// Which cores of its machine a process may use, and what of them is its share where others may use
// them too. Launchers bind processes to cores or leave them all to each: both count.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lossgrid {

struct ProcessCores {
  int rank = 0;            // of the job
  std::vector<int> cores;  // ascending
};

/// The cores that this process may use.
std::vector<int> own_cores();

/// A core that k of the processes may use counts 1/k. `processes` are those of one machine, `rank`
/// one of them; only the `ranks` of the job from `first` on count.
double core_share_of(int rank, int first, int ranks, std::span<const ProcessCores> processes);

/// Cores that any of the `ranks` of the job from `first` on may use.
int cores_of(int first, int ranks, std::span<const ProcessCores> processes);

}  // namespace lossgrid
