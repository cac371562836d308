// SPDX-License-Identifier: Apache-2.0
// Threads that compute for one rank, in matrix products and row kernels alike. Ranks that are
// threads of this process share its cores by one setting; each rank has its own team of threads
// (OpenMP), which works only while the rank waits for it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "harness/core/process/process_cores.h"

namespace lossgrid {

/// Sets and returns the threads that kernels called from this thread use. The initial number, which
/// is also the maximum, is OMP_NUM_THREADS or, without it, all cores that the process may use; the
/// minimum is 1. The thread sanitizer does not see how OpenMP threads wait for each other: its runs
/// set OMP_NUM_THREADS=1.
void set_rank_threads(int threads);
int rank_threads();

/// Sets the threads of each rank of this process from now on; 0, the default: the cores divided by
/// the ranks. Throws bad_input for less than 0 or more than there are cores.
void set_threads_per_rank(int threads);

/// Declares that ranks are processes from now on: this process is `rank` of the job, and
/// `processes` are all processes on its machine, this one included.
void share_machine(int rank, std::vector<ProcessCores> processes);

/// Share of the cores for each of the `ranks` ranks of this process. If ranks are processes: for
/// each of the `ranks` ranks of the job from `first` on, in the cores of this machine.
struct CoreShare {
  int cores = 1;
  int threads_per_rank = 1;
  bool oversubscribed = false;  // more threads than cores
};
CoreShare core_share(int ranks, int first = 0);

/// Returns the threads for work of a process for all of its ranks, such as inputs and truth: the
/// cores that it may use or, if ranks are processes, its share of them. At least 1.
int process_threads();

/// Sets the threads of the calling rank, one of `ranks` that are threads of this process.
void share_cores(int ranks, int first = 0);

namespace detail {
void run_parallel(std::int64_t count, void* body,
                  void (*call)(void* body, std::int64_t begin, std::int64_t end));
}

/// Calls body(begin, end) on equal contiguous parts of [0, count), one for each thread of the rank.
/// The parts depend on `count` and the number of threads alone. `body` must not throw; nothing is
/// allocated.
template <typename Body>
void parallel_for(std::int64_t count, Body&& body) {
  detail::run_parallel(count, &body, [](void* b, std::int64_t begin, std::int64_t end) {
    (*static_cast<std::remove_reference_t<Body>*>(b))(begin, end);
  });
}

}  // namespace lossgrid
