// SPDX-License-Identifier: Apache-2.0
// MemoryHistory: the live buffers of one rank, and its last allocations and releases in a ring of
// bounded length, the oldest dropped first. Empty buffers have no memory and are left out. One
// rank, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

/// Tag of a buffer, and the phase of the rank at its allocation.
struct BufferLabel {
  std::string tag;
  std::string phase;
  friend auto operator<=>(const BufferLabel&, const BufferLabel&) = default;
};

struct MemoryEvent {
  enum class Kind { allocated, released } kind;
  std::uintptr_t address;
  std::size_t bytes;
  std::int64_t time_ns;      // since the Unix epoch
  const BufferLabel* label;  // label of the buffer; the history owns it
};

struct LiveBuffer {
  std::size_t bytes;
  const BufferLabel* label;
};

class MemoryHistory {
 public:
  /// Makes a history whose ring holds `max_entries` allocations and releases together. Reserves all
  /// memory of the ring.
  explicit MemoryHistory(std::size_t max_entries);
  MemoryHistory(const MemoryHistory&) = delete;
  MemoryHistory& operator=(const MemoryHistory&) = delete;

  /// Empties the ring and starts to fill it.
  void start();
  void stop() { recording_ = false; }

  void allocated(std::string_view tag, std::string_view phase, const std::byte* address,
                 std::size_t bytes, std::int64_t time_ns);
  void released(const std::byte* address, std::int64_t time_ns) noexcept;

  /// Returns the ring from its oldest entry on.
  std::vector<MemoryEvent> events() const;
  std::size_t dropped() const { return dropped_; }
  /// Returns live buffers by address, including buffers whose allocation the ring has dropped.
  const std::map<std::uintptr_t, LiveBuffer>& live() const { return live_; }

 private:
  void record(const MemoryEvent& event) noexcept;

  std::size_t max_entries_;
  bool recording_ = false;
  std::vector<MemoryEvent> ring_;
  std::size_t oldest_ = 0;
  std::size_t dropped_ = 0;
  std::set<BufferLabel> labels_;
  std::map<std::uintptr_t, LiveBuffer> live_;
};

}  // namespace lossgrid
