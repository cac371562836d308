// SPDX-License-Identifier: Apache-2.0
// DeviceWork: counts of launches and waits of a rank. Counted at the launch, by the thread of the
// rank, also on an emulated GPU; always 0 on the processor.
#pragma once

#include <cstdint>

namespace lossgrid {

struct DeviceWork {
  std::int64_t launches = 0;          // of kernels and of matrix products
  std::int64_t synchronisations = 0;  // of the host with the stream

  DeviceWork& operator+=(const DeviceWork& other) {
    launches += other.launches;
    synchronisations += other.synchronisations;
    return *this;
  }
};

/// Returns the counts of the calling thread since its start.
inline DeviceWork& device_work() {
  thread_local DeviceWork work;
  return work;
}

/// Returns the flag that the calling thread has launched work since its last wait.
inline bool& launches_pending() {
  thread_local bool pending = false;
  return pending;
}

/// Counts one launch, for which the host has not waited.
inline void count_launch() {
  ++device_work().launches;
  launches_pending() = true;
}

}  // namespace lossgrid
