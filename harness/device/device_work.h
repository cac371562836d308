// SPDX-License-Identifier: Apache-2.0
// What the host asked of a GPU: kernels, and waits for them. Counted where kernels are launched, by
// the thread of the rank, also where the GPU is emulated; nothing counts on the processor.
#pragma once

#include <cstdint>

namespace lossgrid {

struct DeviceWork {
  std::int64_t launches = 0;          // of kernels and of products
  std::int64_t synchronisations = 0;  // of the host with the stream

  DeviceWork& operator+=(const DeviceWork& other) {
    launches += other.launches;
    synchronisations += other.synchronisations;
    return *this;
  }
};

/// Of the calling thread since its start.
inline DeviceWork& device_work() {
  thread_local DeviceWork work;
  return work;
}

/// One kernel that the host waited for.
inline void count_launch_and_wait() {
  device_work() += {1, 1};
}

}  // namespace lossgrid
