// SPDX-License-Identifier: Apache-2.0
// Waiting by tests with pauses, for what has no way of waking a thread: MPI, a GPU.
#pragma once

#include <chrono>

namespace lossgrid {

/// The pauses of one wait: a few tests at once, then after a yield, then after short sleeps.
class Backoff {
 public:
  /// For a rank inside of a collective, where the others are near.
  static Backoff brisk() { return {16, 200, std::chrono::microseconds(100)}; }
  /// For a process that waits for the end of somebody else's work.
  static Backoff idle() { return {0, 16, std::chrono::microseconds(1000)}; }

  void pause();

 private:
  Backoff(int spins, int yields, std::chrono::microseconds longest)
      : spins_(spins), yields_(yields), longest_(longest) {}

  int spins_;
  int yields_;
  std::chrono::microseconds longest_;
  std::chrono::microseconds sleep_{10};
};

}  // namespace lossgrid
