// SPDX-License-Identifier: Apache-2.0
// `PluginMemory`: memory of the device that a plan of a plugin allocates: counted by tag, with
// guard bands. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/core/error.h"
#include "harness/device/device.h"

namespace lossgrid {

class PluginMemory {
 public:
  explicit PluginMemory(Device& device) : device_(device) {}

  /// Returns null if memory runs out.
  void* allocate(std::size_t bytes, const char* tag) noexcept;
  void release(void* memory) noexcept;

  /// Throws rank_failed if the plugin released an address that was not allocated.
  void require_right_releases() const;
  void begin_phase() { peak_bytes_ = begin_bytes_ = live_bytes_; }
  /// Returns the peak bytes of the phase, minus the bytes at its begin.
  std::int64_t peak_bytes() const { return peak_bytes_ - begin_bytes_; }
  /// Returns everything still allocated by tag, "4096 bytes of 'scratch'"; empty if nothing is.
  std::string left() const;

 private:
  Device& device_;
  std::map<void*, Buffer> blocks_;
  std::int64_t live_bytes_ = 0;
  std::int64_t begin_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  bool wrong_release_ = false;
};

}  // namespace lossgrid
