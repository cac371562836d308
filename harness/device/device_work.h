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

/// Whether the calling thread launched anything since it last waited.
inline bool& launches_pending() {
  thread_local bool pending = false;
  return pending;
}

/// One kernel that the host did not wait for.
inline void count_launch() {
  ++device_work().launches;
  launches_pending() = true;
}

}  // namespace lossgrid
