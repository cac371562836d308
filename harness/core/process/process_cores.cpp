// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/process_cores.h"

#include <algorithm>
#include <map>
#include <memory>
#include <thread>

#include <sched.h>

namespace lossgrid {
namespace {

bool is_among(int rank, int first, int ranks) {
  return rank >= first && rank - first < ranks;
}

/// Returns the number of processes that may use each core.
std::map<int, int> users_of_cores(int first, int ranks, std::span<const ProcessCores> processes) {
  std::map<int, int> users;
  for (const ProcessCores& process : processes) {
    if (!is_among(process.rank, first, ranks)) continue;
    for (const int core : process.cores) ++users[core];
  }
  return users;
}

}  // namespace

std::vector<int> own_cores() {
  constexpr int kMostCores = 1 << 14;  // more than cpu_set_t has room for
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  const std::unique_ptr<cpu_set_t, Free> set(CPU_ALLOC(kMostCores));
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCores);
  std::vector<int> cores;
  if (set != nullptr && sched_getaffinity(0, bytes, set.get()) == 0) {
    for (int core = 0; core < kMostCores; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set.get())) cores.push_back(core);
    }
  }
  if (cores.empty()) {
    const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int core = 0; core < count; ++core) cores.push_back(core);
  }
  return cores;
}

double process_core_share(int rank, int first, int ranks, std::span<const ProcessCores> processes) {
  const std::map<int, int> users = users_of_cores(first, ranks, processes);
  double share = 0;
  for (const ProcessCores& process : processes) {
    if (process.rank != rank || !is_among(rank, first, ranks)) continue;
    for (const int core : process.cores) share += 1.0 / users.at(core);
  }
  return share;
}

int core_count(int first, int ranks, std::span<const ProcessCores> processes) {
  return static_cast<int>(users_of_cores(first, ranks, processes).size());
}

}  // namespace lossgrid
