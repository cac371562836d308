// SPDX-License-Identifier: Apache-2.0
// Last-level cache of a processor or a GPU: its size, and CacheWalk, which evicts the data of a
// phase from it. Cold and hot are different measurements, and neither stands for the other.
#pragma once

#include <cstdint>

#include "harness/measure/device_memory.h"

namespace lossgrid {

/// Returns the bytes of the last-level cache (BackendTraits).
std::int64_t last_level_cache_bytes(Backend backend = Backend::cpu);

/// Returns the bytes of a walk: a quarter more than the last-level cache of a processor; four times
/// that of a GPU, whose replacement policy is not documented.
std::int64_t cache_walk_bytes(Backend backend = Backend::cpu);

/// Evicts all data from the caches of a rank's cores, or of its GPU, by reading a buffer that they
/// cannot hold beside anything else. Every rank has its own buffer and walks at the same time.
class CacheWalk {
 public:
  /// `device` outlives the object.
  explicit CacheWalk(Device& device);
  /// Walks, with the threads of the rank, or as a kernel, which is launched. Writes nothing, so
  /// that no line has to be written back.
  void run();

 private:
  Device& device_;
  DeviceArray<std::uint64_t> words_;
  DeviceMemory memory_;
};

}  // namespace lossgrid
