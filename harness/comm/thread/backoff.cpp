// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/thread/backoff.h"

#include <algorithm>
#include <thread>

namespace lossgrid {

void Backoff::pause() {
  if (spins_ > 0) {
    --spins_;
  } else if (yields_ > 0) {
    --yields_;
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, longest_);
  }
}

}  // namespace lossgrid
