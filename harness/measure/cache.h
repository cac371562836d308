// SPDX-License-Identifier: Apache-2.0
// Last-level cache of a processor or a GPU: its size, and CacheWalk, which evicts the data of a
// phase from it. Times with a cold and with a hot cache are different measurements; neither
// replaces the other.
#pragma once

#include <cstdint>

#include "harness/measure/device_memory.h"

namespace lossgrid {

/// Returns the bytes of the last-level cache (BackendTraits).
std::int64_t last_level_cache_bytes(Backend backend = Backend::cpu);

/// Returns the bytes of a walk: 1.25 times the last-level cache of a processor; 4 times the
/// last-level cache of a GPU, whose replacement policy is not documented.
std::int64_t cache_walk_bytes(Backend backend = Backend::cpu);

/// Evicts all data from the caches of a rank's cores, or of its GPU, by reading a buffer larger
/// than the caches. Every rank has its own buffer and walks at the same time.
class CacheWalk {
 public:
  /// `device` outlives the object.
  explicit CacheWalk(Device& device);
  /// Reads the buffer with the threads of the rank, or launches a kernel that does. Writes nothing,
  /// so that no cache line has to be written back.
  void run();

 private:
  Device& device_;
  DeviceArray<std::uint64_t> words_;
  DeviceMemory memory_;
};

}  // namespace lossgrid
