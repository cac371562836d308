// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/device/device_work.h"

namespace lossgrid {

void Device::synchronise() {
  if (!launches_pending()) return;
  ++device_work().synchronisations;
  // If wait() throws, launches_pending() stays set, so that the next call reports the failure
  // again: the current call may come from a release of memory, which swallows the failure.
  wait();
  launches_pending() = false;
}

void Device::lose() {
  throw Error(ErrorCode::unsupported, fmt::format("the device of {} cannot be lost", name()));
}

std::vector<std::string> Device::take_broken_guards() {
  std::vector<std::string> broken = std::move(broken_);
  broken_.clear();
  for (const Buffer* buffer : buffers_) {
    if (!buffer->guards_intact()) broken.push_back(buffer->tag());
  }
  return broken;
}

/// Skips the check of guards on a lost device, whose memory cannot be read; the next wait reports
/// the loss.
void Device::detach(Buffer* buffer) noexcept {
  try {
    if (!buffer->guards_intact()) broken_.push_back(buffer->tag());
  } catch (const Error&) {
  }
  buffers_.erase(std::find(buffers_.begin(), buffers_.end(), buffer));
}

void Device::moved(Buffer* from, Buffer* to) noexcept {
  *std::find(buffers_.begin(), buffers_.end(), from) = to;
}

}  // namespace lossgrid
