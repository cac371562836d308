// SPDX-License-Identifier: Apache-2.0
// What the driver of a GPU says of its memory. It sees what no tracker does: what libraries and
// communicators take for themselves, how far allocations are rounded up, and other processes.
#pragma once

#include <cstdint>

namespace lossgrid {

/// Both may be negative, since somebody else may have given memory back.
struct DriverMemory {
  std::int64_t used_bytes = 0;  // on the whole GPU, beyond what was when the Device was made
  std::int64_t pool_bytes = 0;  // of them, in the pool that buffers of this process come from

  /// Libraries, communicators, other processes.
  std::int64_t other_bytes() const { return used_bytes - pool_bytes; }
};

}  // namespace lossgrid
