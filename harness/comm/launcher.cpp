// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/launcher.h"

#include <array>
#include <cstdlib>

namespace lossgrid {

bool under_launcher(const EnvironmentLookup& lookup) {
  constexpr std::array kOfLaunchers{
      "OMPI_COMM_WORLD_SIZE",  // mpirun of Open MPI
      "PMIX_RANK",             // PRRTE; srun --mpi=pmix
      "PMI_SIZE",              // hydra: MPICH, Intel MPI; Cray
      "MV2_COMM_WORLD_SIZE",   // MVAPICH
  };
  for (const char* name : kOfLaunchers) {
    if (lookup(name) != nullptr) return true;
  }
  // Also set for a step of one process, such as the srun around a whole script.
  const char* tasks = lookup("SLURM_STEP_NUM_TASKS");
  return lookup("SLURM_PROCID") != nullptr && tasks != nullptr && std::atoi(tasks) > 1;
}

int launcher_rank(const EnvironmentLookup& lookup) {
  if (!under_launcher(lookup)) return 0;
  constexpr std::array kOfLaunchers{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                    "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};
  for (const char* name : kOfLaunchers) {
    if (const char* rank = lookup(name)) return std::atoi(rank);
  }
  return 0;
}

int launcher_rank() {
  return launcher_rank([](const char* name) { return std::getenv(name); });
}

bool under_launcher() {
  return under_launcher([](const char* name) { return std::getenv(name); });
}

}  // namespace lossgrid
