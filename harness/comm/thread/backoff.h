// SPDX-License-Identifier: Apache-2.0
// Backoff: pauses between polls, for events that cannot wake a thread: of MPI, of a GPU.
#pragma once

#include <chrono>

namespace lossgrid {

/// Pauses of one wait: none for the first polls, then yields, then short sleeps.
class Backoff {
 public:
  /// Pauses inside of a collective, whose other ranks come soon.
  static Backoff brisk() { return {16, 200, std::chrono::microseconds(100)}; }
  /// Pauses of a process that waits for the end of long work elsewhere.
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
