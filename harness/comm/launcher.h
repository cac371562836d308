// SPDX-License-Identifier: Apache-2.0
// Detection of the MPI launcher that started this process, from the environment variables that
// launchers set; MPI itself is not needed. Of Slurm only the variables of srun count, since a batch
// script has rank variables too but is no process of a step.
#pragma once

#include <functional>

namespace lossgrid {

/// Function that returns the value of a variable, null if it is not set.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// Returns true under mpirun and mpiexec (Open MPI, MPICH and its relatives, PRRTE) of any number
/// of processes and under srun of several.
bool under_launcher(const EnvironmentLookup& lookup);
/// Returns the same for this process.
bool under_launcher();

/// Returns the rank that the launcher gave the process; 0 without a launcher.
int launcher_rank(const EnvironmentLookup& lookup);
/// Returns the same for this process.
int launcher_rank();

}  // namespace lossgrid
