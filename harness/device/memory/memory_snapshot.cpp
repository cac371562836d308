// SPDX-License-Identifier: Apache-2.0
// The viewer goes from the last state back through the events. So every live block lies in a
// segment, even if the ring has dropped its allocation, and an entry of the ring makes all of its
// events.
#include "harness/device/memory/memory_snapshot.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kNsPerUs = 1000;

/// Returns JSON text. Bytes of strings that are not UTF-8 (a path in an id) are replaced.
std::string dump_json(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

class Snapshot {
 public:
  explicit Snapshot(const SnapshotSubject& subject) : subject_(subject) {}

  std::string segment(std::uintptr_t address, const LiveBuffer& buffer) const {
    const ordered_json block = {{"address", address},
                                {"size", buffer.bytes},
                                {"requested_size", buffer.bytes},
                                {"state", "active_allocated"},
                                {"frames", frames(*buffer.label)}};
    return dump_json({{"device", subject_.rank},
                      {"address", address},
                      {"total_size", buffer.bytes},
                      {"allocated_size", buffer.bytes},
                      {"active_size", buffer.bytes},
                      {"requested_size", buffer.bytes},
                      {"stream", 0},
                      {"segment_type", "large"},
                      {"segment_pool_id", {0, 0}},
                      {"is_expandable", false},
                      {"frames", frames(*buffer.label)},
                      {"blocks", ordered_json::array({block})}});
  }

  std::vector<std::string> entries(const MemoryEvent& event) const {
    if (event.kind == MemoryEvent::Kind::released) {
      return {entry("free_requested", event), entry("free_completed", event),
              entry("segment_free", event)};
    }
    return {entry("segment_alloc", event), entry("alloc", event)};
  }

 private:
  /// Returns the frames, innermost first, without line numbers: a buffer is known by its tag. A
  /// release has frames too: the viewer shows them if the ring has dropped the allocation.
  ordered_json frames(const BufferLabel& label) const {
    return ordered_json::array(
        {{{"name", label.tag}, {"filename", label.phase}, {"line", 0}},
         {{"name", subject_.implementation}, {"filename", "lossgrid"}, {"line", 0}}});
  }

  std::string entry(const char* action, const MemoryEvent& event) const {
    ordered_json entry = {{"action", action},
                          {"addr", event.address},
                          {"size", event.bytes},
                          {"stream", 0},
                          {"time_us", event.time_ns / kNsPerUs},
                          {"frames", frames(*event.label)}};
    if (std::string_view(action) == "alloc") {
      entry["user_metadata"] = fmt::format("rank={} step={} phase={} tensor={}", subject_.rank,
                                           subject_.step, event.label->phase, event.label->tag);
    }
    return dump_json(entry);
  }

  const SnapshotSubject& subject_;
};

/// Writer of a list, one element a line.
class Lines {
 public:
  void add(const std::string& element) {
    text_ += text_.empty() ? "\n" : ",\n";
    text_ += element;
  }
  std::string list() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

}  // namespace

std::string memory_snapshot(const MemoryHistory& history, const SnapshotSubject& subject) {
  const Snapshot snapshot(subject);
  Lines segments;
  for (const auto& [address, buffer] : history.live()) {
    segments.add(snapshot.segment(address, buffer));
  }
  Lines trace;
  for (const MemoryEvent& event : history.events()) {
    for (const std::string& entry : snapshot.entries(event)) trace.add(entry);
  }
  // Indexed by device number.
  Lines traces;
  for (int rank = 0; rank < subject.rank; ++rank) traces.add("[]");
  traces.add(trace.list());
  // Dictionary with arbitrary keys, shown in its own tab of the viewer.
  const ordered_json settings = {{"trial", subject.trial},
                                 {"rank", subject.rank},
                                 {"step", subject.step},
                                 {"dropped_entries", history.dropped()}};
  return fmt::format("{{\"segments\":{},\n\"device_traces\":{},\n\"allocator_settings\":{}}}\n",
                     segments.list(), traces.list(), dump_json(settings));
}

}  // namespace lossgrid
