// SPDX-License-Identifier: Apache-2.0
// Size of the processor's last-level cache.
#pragma once

#include <cstdint>

namespace lossgrid {

/// Returns the bytes of the largest cache of core 0, from /sys/devices/system/cpu, else from
/// sysconf; 32 MiB if neither has it. Read once.
std::int64_t processor_cache_bytes();

}  // namespace lossgrid
