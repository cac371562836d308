// SPDX-License-Identifier: Apache-2.0
// Staging: memory of a device that is not accounted for, because it belongs to the harness, which
// reads and passes on tensors in it. Grows, never shrinks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "harness/core/process/heap_watch.h"
#include "harness/device/device.h"

namespace lossgrid {

class Staging {
 public:
  /// `device` outlives the object.
  explicit Staging(Device& device, MemorySpace space = MemorySpace::shared)
      : device_(&device), space_(space) {}
  ~Staging() { release(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Returns memory of at least `bytes`; earlier contents may be lost. Throws not_enough_memory.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > bytes_ || memory_ == nullptr) {
      release();
      const std::size_t asked = std::max<std::size_t>(bytes, 1);
      const HeapWatchScope unwatched(nullptr);
      memory_ = device_->acquire(asked, space_);
      bytes_ = asked;
    }
    return memory_;
  }

 private:
  void release() noexcept {
    if (memory_ != nullptr) device_->release(std::exchange(memory_, nullptr), space_);
    bytes_ = 0;
  }

  Device* device_;
  MemorySpace space_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lossgrid
