// SPDX-License-Identifier: Apache-2.0
// The clock that samples are taken with. What measures takes it as an argument, so that a test can
// give it another one. Calls allocate nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace lossgrid {

/// Nanoseconds since some fixed moment, never less than before.
using ClockNs = std::function<std::int64_t()>;

inline std::int64_t steady_clock_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace lossgrid
