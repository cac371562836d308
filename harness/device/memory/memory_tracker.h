// SPDX-License-Identifier: Apache-2.0
// MemoryTracker: accounts for every buffer of one rank: live bytes by tag, and the peak of each
// phase with the tags that were live at the peak. Counts requested bytes, without guard bands, so
// that a figure is the same on every machine and can be compared with a prediction. One rank, one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/memory/driver_memory.h"

namespace lossgrid {

struct PhaseMemory {
  std::string phase;
  std::int64_t peak_bytes = 0;                       // peak of all live bytes, inputs included
  std::map<std::string, std::int64_t> by_tag_bytes;  // bytes live at the peak
  std::int64_t end_bytes = 0;                        // bytes live when the phase ended
  std::int64_t allocations = 0;                      // buffers allocated during the phase
  std::optional<DriverMemory> driver = {};           // at the phase's end; nullopt on host memory
};

class MemoryTracker {
 public:
  void allocated(std::string_view tag, std::int64_t bytes);
  void released(std::string_view tag, std::int64_t bytes);

  /// Ends the current phase, if any, and starts `phase`; its peak begins with the bytes that are
  /// live now.
  void begin_phase(std::string_view phase);
  void end_phase();

  std::int64_t live_bytes() const { return live_bytes_; }
  /// Returns the largest number of bytes ever live, inside or outside of phases.
  std::int64_t peak_bytes() const { return peak_bytes_; }
  const std::map<std::string, std::int64_t>& live_by_tag() const { return live_; }
  const std::vector<PhaseMemory>& phases() const { return phases_; }

 private:
  std::map<std::string, std::int64_t> live_;
  std::int64_t live_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::vector<PhaseMemory> phases_;
  bool in_phase_ = false;
};

}  // namespace lossgrid
