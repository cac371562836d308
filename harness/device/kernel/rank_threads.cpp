// SPDX-License-Identifier: Apache-2.0
#include "harness/device/kernel/rank_threads.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include <omp.h>

#include "harness/core/error.h"
#include "harness/core/process/heap_watch.h"

namespace lossgrid {
namespace {

std::atomic<int> threads_per_rank{0};

struct Machine {
  int rank = 0;
  std::vector<ProcessCores> processes;  // empty: ranks are threads of this process
};

Machine& machine() {
  static Machine instance;
  return instance;
}

int cores() {
  static const int most = omp_get_max_threads();  // before the first change
  return most;
}

/// Rounds to at least one. A share is a sum of fractions, and a rounding error may put it just
/// below a whole number.
int whole_cores(double share) {
  return std::max(1, static_cast<int>(share + 1e-9));
}

}  // namespace

void set_rank_threads(int threads) {
  const int most = cores();  // before the call below, which changes the result of cores()
  omp_set_num_threads(std::clamp(threads, 1, most));
}

int rank_threads() {
  const HeapWatchScope unwatched(nullptr);  // memory of the OpenMP runtime for a new thread
  return omp_get_max_threads();
}

void set_threads_per_rank(int threads) {
  if (threads < 0 || threads > cores()) {
    throw_bad_input("{} threads per rank: this process may use {} cores", threads, cores());
  }
  threads_per_rank = threads;
}

void share_machine(int rank, std::vector<ProcessCores> processes) {
  machine() = {rank, std::move(processes)};
}

CoreShare core_share(int ranks, int first) {
  const int asked = threads_per_rank;
  CoreShare share;
  const Machine& here = machine();
  const double own = process_core_share(here.rank, first, ranks, here.processes);
  if (own > 0) {
    const int fitting = std::min(whole_cores(own), cores());
    share.cores = core_count(first, ranks, here.processes);
    share.threads_per_rank = asked > 0 ? asked : fitting;
    share.oversubscribed = share.threads_per_rank > own + 1e-9;
    return share;
  }
  share.cores = cores();
  share.threads_per_rank = asked > 0 ? asked : std::max(1, share.cores / ranks);
  share.oversubscribed = share.threads_per_rank * ranks > share.cores;
  return share;
}

int process_threads() {
  const Machine& here = machine();
  if (here.processes.empty()) return static_cast<int>(own_cores().size());
  constexpr int kAllRanks = std::numeric_limits<int>::max();
  return whole_cores(process_core_share(here.rank, 0, kAllRanks, here.processes));
}

void share_cores(int ranks, int first) {
  set_rank_threads(core_share(ranks, first).threads_per_rank);
}

namespace detail {

void run_parallel(std::int64_t count, void* body,
                  void (*call)(void* body, std::int64_t begin, std::int64_t end)) {
  const auto threads = static_cast<int>(std::min<std::int64_t>(rank_threads(), count));
  if (threads <= 1) {
    if (count > 0) call(body, 0, count);
    return;
  }
  HeapWatch* const watch = heap_watch();
  const HeapWatchScope unwatched(nullptr);  // memory of the team itself
#pragma omp parallel num_threads(threads)
  {
    const HeapWatchScope watched(watch);
    // The team may be smaller than asked for.
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t thread = omp_get_thread_num();
    call(body, count * thread / team, count * (thread + 1) / team);
  }
}

}  // namespace detail
}  // namespace lossgrid
