// SPDX-License-Identifier: Apache-2.0
// DeviceWork: counts of a rank's launches, waits, operations of matrix products and traffic of
// rows, by the thread of the rank.
#pragma once

#include <cstdint>

#include "harness/device/kernel/row_traffic.h"

namespace lossgrid {

struct DeviceWork {
  // Counted at the launch, on GPUs and emulated GPUs; 0 on the processor.
  std::int64_t launches = 0;          // launches of kernels and matrix products
  std::int64_t synchronisations = 0;  // waits of the host for the stream
  // Counted at the launch, on every backend: 2 m n k for each matrix product.
  std::int64_t flops = 0;
  // Counted when a kernel has run, on emulated GPUs only (row_traffic.h).
  RowTraffic rows;

  DeviceWork& operator+=(const DeviceWork& other) {
    launches += other.launches;
    synchronisations += other.synchronisations;
    flops += other.flops;
    rows += other.rows;
    return *this;
  }
};

/// Returns the counts of the calling thread since its start.
inline DeviceWork& device_work() {
  thread_local DeviceWork work;
  return work;
}

/// Returns the flag of the calling thread that is true after a launch, until its next wait.
inline bool& launches_pending() {
  thread_local bool pending = false;
  return pending;
}

/// Counts one launch and sets launches_pending().
inline void count_launch() {
  ++device_work().launches;
  launches_pending() = true;
}

}  // namespace lossgrid
