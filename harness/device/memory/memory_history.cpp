// SPDX-License-Identifier: Apache-2.0
#include "harness/device/memory/memory_history.h"

namespace lossgrid {

MemoryHistory::MemoryHistory(std::size_t max_entries) : max_entries_(max_entries) {
  ring_.reserve(max_entries);
}

void MemoryHistory::start() {
  ring_.clear();
  oldest_ = 0;
  dropped_ = 0;
  recording_ = true;
}

void MemoryHistory::allocated(std::string_view tag, std::string_view phase,
                              const std::byte* address, std::size_t bytes, std::int64_t time_ns) {
  if (bytes == 0) return;
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  const BufferLabel* label = &*labels_.insert({std::string(tag), std::string(phase)}).first;
  live_[place] = {bytes, label};
  record({MemoryEvent::Kind::allocated, place, bytes, time_ns, label});
}

void MemoryHistory::released(const std::byte* address, std::int64_t time_ns) noexcept {
  const auto buffer = live_.find(reinterpret_cast<std::uintptr_t>(address));
  if (buffer == live_.end()) return;
  record({MemoryEvent::Kind::released, buffer->first, buffer->second.bytes, time_ns,
          buffer->second.label});
  live_.erase(buffer);
}

void MemoryHistory::record(const MemoryEvent& event) noexcept {
  if (!recording_) return;
  if (ring_.size() < max_entries_) {
    ring_.push_back(event);
    return;
  }
  ++dropped_;
  ring_[oldest_] = event;
  oldest_ = (oldest_ + 1) % max_entries_;
}

std::vector<MemoryEvent> MemoryHistory::events() const {
  const auto oldest = ring_.begin() + static_cast<std::ptrdiff_t>(oldest_);
  std::vector<MemoryEvent> events(oldest, ring_.end());
  events.insert(events.end(), ring_.begin(), oldest);
  return events;
}

}  // namespace lossgrid
