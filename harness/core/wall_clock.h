// SPDX-License-Identifier: Apache-2.0
// Time of day, for files that are compared with files of other programs. For durations see clock.h.
#pragma once

#include <chrono>
#include <cstdint>

#include "harness/core/clock.h"

namespace lossgrid {

/// Returns nanoseconds since the Unix epoch: the time of day at the first call plus the time of the
/// steady clock since then. Never less than before within a process.
inline std::int64_t epoch_ns() {
  using std::chrono::nanoseconds;
  static const std::int64_t steady_to_epoch =
      std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      steady_clock_ns();
  return steady_to_epoch + steady_clock_ns();
}

}  // namespace lossgrid
