// SPDX-License-Identifier: Apache-2.0
// The time of day for files that others read beside those of other programs. For durations there is
// clock.h.
#pragma once

#include <chrono>
#include <cstdint>

#include "harness/core/clock.h"

namespace lossgrid {

/// Nanoseconds since the Unix epoch: the time of day at the first call, and what the steady clock
/// has counted since. Never less than before within a process.
inline std::int64_t epoch_ns() {
  using std::chrono::nanoseconds;
  static const std::int64_t steady_to_epoch =
      std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      steady_clock_ns();
  return steady_to_epoch + steady_clock_ns();
}

}  // namespace lossgrid
