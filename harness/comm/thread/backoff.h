// SPDX-License-Identifier: Apache-2.0
// Backoff: pauses between polls, for events that cannot wake a thread: of MPI, of a GPU.
#pragma once

#include <chrono>
#include <cstdint>

#include "harness/core/clock.h"

namespace lossgrid {

/// Pauses of one wait: yields at first, then short sleeps, each twice as long as the one before. A
/// sleep of the shortest kind takes some 60 microseconds, by which its thread is late.
class Backoff {
 public:
  using Clock = std::int64_t (*)();

  /// Pauses inside of a collective, whose other ranks come soon.
  static Backoff brisk(Clock clock = steady_clock_ns) {
    return {std::chrono::microseconds(200), std::chrono::microseconds(100), clock};
  }
  /// Pauses of a rank that waits for kernels, which are a part of what it times: a phase of a
  /// millisecond must not end with a sleep.
  static Backoff for_kernels(Clock clock = steady_clock_ns) {
    return {std::chrono::milliseconds(10), std::chrono::microseconds(100), clock};
  }
  /// Pauses of a process that waits for the end of long work elsewhere.
  static Backoff idle(Clock clock = steady_clock_ns) {
    return {std::chrono::microseconds(10), std::chrono::milliseconds(1), clock};
  }

  /// Returns the sleep that is due; 0: a yield.
  std::chrono::microseconds next();
  /// Pauses for next().
  void pause();

 private:
  Backoff(std::chrono::nanoseconds awake, std::chrono::microseconds longest, Clock clock)
      : clock_(clock), awake_until_ns_(clock() + awake.count()), longest_(longest) {}

  Clock clock_;
  std::int64_t awake_until_ns_;
  std::chrono::microseconds longest_;
  std::chrono::microseconds sleep_{10};
};

}  // namespace lossgrid
