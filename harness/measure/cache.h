// SPDX-License-Identifier: Apache-2.0
// The last-level cache: how large it is, and how to empty it of what a phase will need. Cold and
// hot are different measurements, and neither stands for the other.
#pragma once

#include <cstdint>

#include "harness/device/device.h"

namespace lossgrid {

/// Bytes of the largest cache that this processor's core 0 has, from /sys/devices/system/cpu, or
/// where that says nothing from sysconf; 32 MiB where neither knows.
std::int64_t last_level_cache_bytes();

/// What a walk goes through: a quarter more than the last-level cache.
std::int64_t cache_walk_bytes();

/// Pushes whatever a rank's cores hold out of their caches, by reading a buffer that they cannot
/// hold beside anything else. Every rank has its own buffer and walks at the same time.
class CacheWalk {
 public:
  /// `device` outlives the object.
  explicit CacheWalk(Device& device);
  /// With the threads of the rank; nothing is written, so nothing is left to be written back.
  void run() const;

 private:
  DeviceArray<std::uint64_t> words_;
};

}  // namespace lossgrid
