// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory/memory_tracker.h"

#include <algorithm>

namespace lossgrid {

void MemoryTracker::allocated(std::string_view tag, std::int64_t bytes) {
  live_[std::string(tag)] += bytes;
  live_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  if (!in_phase_) return;
  PhaseMemory& phase = phases_.back();
  ++phase.allocations;
  if (live_bytes_ > phase.peak_bytes) {
    phase.peak_bytes = live_bytes_;
    phase.by_tag_bytes = live_;
  }
}

void MemoryTracker::released(std::string_view tag, std::int64_t bytes) {
  const auto entry = live_.find(std::string(tag));
  if (entry == live_.end()) return;  // empty buffer of a tag without bytes
  entry->second -= bytes;
  if (entry->second == 0) live_.erase(entry);
  live_bytes_ -= bytes;
}

void MemoryTracker::begin_phase(std::string_view phase) {
  end_phase();
  phases_.push_back({std::string(phase), live_bytes_, live_, live_bytes_, 0});
  in_phase_ = true;
}

void MemoryTracker::end_phase() {
  if (in_phase_) phases_.back().end_bytes = live_bytes_;
  in_phase_ = false;
}

}  // namespace lossgrid
