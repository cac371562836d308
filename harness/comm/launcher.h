// SPDX-License-Identifier: Apache-2.0
// Whether an MPI launcher started this process, read from the environment that launchers give their
// processes; MPI need not be there. Slurm: only what srun sets counts, as a batch script has rank
// variables too but is no process of a step.
#pragma once

#include <functional>

namespace lossgrid {

/// Looks a variable up: its value, or null when it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// True under mpirun, mpiexec (Open MPI, MPICH and its relatives, PRRTE) of any number of processes
/// and under srun of several.
bool under_launcher(const EnvironmentLookup& lookup);
/// The same for this process.
bool under_launcher();

/// The rank that the launcher gave the process; 0 where there is none.
int launcher_rank(const EnvironmentLookup& lookup);
/// The same for this process.
int launcher_rank();

}  // namespace lossgrid
