// SPDX-License-Identifier: Apache-2.0
// The last-level cache of a processor or a GPU: how large it is, and how to empty it of what a
// phase will need. Cold and hot are different measurements, and neither stands for the other.
#pragma once

#include <cstdint>

#include "harness/measure/device_memory.h"

namespace lossgrid {

/// Bytes of the largest cache that this processor's core 0 has, from /sys/devices/system/cpu, or
/// where that says nothing from sysconf; 32 MiB where neither knows. Of a GPU its second level; 1
/// MiB of one that is emulated.
std::int64_t last_level_cache_bytes(Backend backend = Backend::cpu);

/// What a walk goes through: a quarter more than the last-level cache; four times that of a GPU,
/// which does not say what it replaces first.
std::int64_t cache_walk_bytes(Backend backend = Backend::cpu);

/// Pushes whatever a rank's cores, or its GPU, hold out of their caches, by reading a buffer that
/// they cannot hold beside anything else. Every rank has its own buffer and walks at the same time.
class CacheWalk {
 public:
  /// `device` outlives the object.
  explicit CacheWalk(Device& device);
  /// With the threads of the rank, or as a kernel, which is launched; nothing is written, so
  /// nothing is left to be written back.
  void run();

 private:
  Device& device_;
  DeviceArray<std::uint64_t> words_;
  DeviceMemory memory_;
};

}  // namespace lossgrid
