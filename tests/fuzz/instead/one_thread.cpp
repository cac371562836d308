// SPDX-License-Identifier: Apache-2.0
// Stands for the threads of a rank (rank_threads.cpp): readers are fuzzed on one thread.
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid::detail {

void run_parallel(std::int64_t count, void* body,
                  void (*call)(void* body, std::int64_t begin, std::int64_t end)) {
  if (count > 0) call(body, 0, count);
}

}  // namespace lossgrid::detail
