// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device.h"

#include <algorithm>

namespace lossgrid {

std::vector<std::string> Device::take_broken_guards() {
  std::vector<std::string> broken = std::move(broken_);
  broken_.clear();
  for (const Buffer* buffer : buffers_) {
    if (!buffer->guards_intact()) broken.push_back(buffer->tag());
  }
  return broken;
}

void Device::detach(Buffer* buffer) noexcept {
  if (!buffer->guards_intact()) broken_.push_back(buffer->tag());
  buffers_.erase(std::find(buffers_.begin(), buffers_.end(), buffer));
}

void Device::moved(Buffer* from, Buffer* to) noexcept {
  *std::find(buffers_.begin(), buffers_.end(), from) = to;
}

}  // namespace lossgrid
