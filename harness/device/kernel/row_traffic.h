// SPDX-License-Identifier: Apache-2.0
// RowTraffic: bytes of rows of the vocabulary that kernels read and write. Each access of a thread
// counts with its size, even if a cache may serve it. Kernels count in emulation only; code for
// GPUs has no counters. A target's logit, which is read apart from its row, is not counted.
#pragma once

#include <cstdint>

#include "harness/core/process/sanitizers.h"
#include "harness/device/kernel/portable.h"

namespace lossgrid {

struct RowTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;

  RowTraffic& operator+=(const RowTraffic& other) {
    read_bytes += other.read_bytes;
    written_bytes += other.written_bytes;
    return *this;
  }
};

/// Returns the counts of the calling thread for its part of a launch; HostLauncher adds them to the
/// counts of the rank.
inline RowTraffic& thread_row_traffic() {
  thread_local RowTraffic traffic;
  return traffic;
}

// The counters belong to the emulation, not to the kernel: threads of a block may count at the same
// time.
LOSSGRID_UNWATCHED LOSSGRID_KERNEL void count_row_read([[maybe_unused]] std::int64_t bytes) {
#ifndef __CUDACC__
  thread_row_traffic().read_bytes += bytes;
#endif
}

LOSSGRID_UNWATCHED LOSSGRID_KERNEL void count_row_written([[maybe_unused]] std::int64_t bytes) {
#ifndef __CUDACC__
  thread_row_traffic().written_bytes += bytes;
#endif
}

}  // namespace lossgrid
