// SPDX-License-Identifier: Apache-2.0
// DriverMemory: memory use of a GPU as its driver reports it. Unlike the tracker it includes memory
// of libraries and communicators, the rounding up of allocations, and other processes.
#pragma once

#include <cstdint>

namespace lossgrid {

/// Memory use. Both members may be negative, since other processes may have released memory.
struct DriverMemory {
  std::int64_t used_bytes = 0;  // on the whole GPU, minus the use at construction of the Device
  std::int64_t pool_bytes = 0;  // part of used_bytes that is in the pool of this process's buffers

  /// Returns the memory of libraries, communicators and other processes.
  std::int64_t other_bytes() const { return used_bytes - pool_bytes; }
};

}  // namespace lossgrid
