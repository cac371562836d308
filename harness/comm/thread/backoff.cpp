// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/thread/backoff.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace lossgrid {

std::chrono::microseconds Backoff::next() {
  if (clock_() < awake_until_ns_) return std::chrono::microseconds(0);
  return std::exchange(sleep_, std::min(2 * sleep_, longest_));
}

void Backoff::pause() {
  const std::chrono::microseconds sleep = next();
  if (sleep.count() == 0) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(sleep);
  }
}

}  // namespace lossgrid
