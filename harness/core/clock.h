// SPDX-License-Identifier: Apache-2.0
// Clocks of samples. Code that measures takes the clock as an argument, so that tests can replace
// it. Calls allocate nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace lossgrid {

/// Function that returns nanoseconds since some fixed moment, never less than before.
using ClockNs = std::function<std::int64_t()>;

inline std::int64_t steady_clock_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace lossgrid
