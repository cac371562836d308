// SPDX-License-Identifier: Apache-2.0
// How many threads compute for one rank. Ranks that are threads of this process share its cores by
// one setting, for matrix products and row kernels alike; each thread that is a rank has a team of
// its own (OpenMP), which works only while the rank waits for it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "harness/core/process_cores.h"

namespace lossgrid {

/// Threads that kernels called from this thread use. At first all cores that the process may use,
/// or OMP_NUM_THREADS; less than 1 is set to 1, more than at first to that. The thread sanitizer
/// does not see how OpenMP threads wait for each other: its runs set OMP_NUM_THREADS=1.
void set_rank_threads(int threads);
int rank_threads();

/// Of all ranks of this process from now on; 0, as at first: the cores divided by the ranks.
/// Throws bad_input for less than 0 or more than there are cores.
void set_threads_per_rank(int threads);

/// From now on ranks are processes: this one is `rank` of the job, and `processes` are those on its
/// machine, itself among them.
void share_machine(int rank, std::vector<ProcessCores> processes);

/// How `ranks` ranks share the cores of this process; where ranks are processes, those from `first`
/// on the cores of this machine.
struct CoreShare {
  int cores = 1;
  int threads_per_rank = 1;
  bool oversubscribed = false;  // more threads than cores
};
CoreShare core_share(int ranks, int first = 0);

/// Threads for what a process does for all of its ranks, such as inputs and truth: the cores that
/// it may use, and where ranks are processes its share of them. At least 1.
int process_threads();

/// Sets the threads of the calling rank, one of `ranks` that are threads of this process.
void share_cores(int ranks, int first = 0);

namespace detail {
void run_parallel(std::int64_t count, void* body,
                  void (*call)(void* body, std::int64_t begin, std::int64_t end));
}

/// Calls body(begin, end) on equal contiguous parts of [0, count), one for each thread of the rank.
/// Which part is whose depends on `count` and the threads alone. `body` must not throw; nothing is
/// allocated.
template <typename Body>
void parallel_for(std::int64_t count, Body&& body) {
  detail::run_parallel(count, &body, [](void* b, std::int64_t begin, std::int64_t end) {
    (*static_cast<std::remove_reference_t<Body>*>(b))(begin, end);
  });
}

}  // namespace lossgrid
