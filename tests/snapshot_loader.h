// SPDX-License-Identifier: Apache-2.0
// Loads a memory snapshot by the rules of its readers: what MemoryViz.js and torch's
// cuda/_memory_viz.py take from it and what they assert. The viewer goes back from the segments
// through the events of a device; here every step of that has to be possible, and exact.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lossgrid {

class LoadedSnapshot {
 public:
  explicit LoadedSnapshot(const std::string& text) { load(text); }

  std::vector<std::string> complaints;
  std::set<int> devices;           // with segments or events
  std::size_t events = 0;          // of all devices
  std::int64_t final_bytes = 0;    // active in the segments
  std::int64_t initial_bytes = 0;  // before the first event, by going back to it
  std::int64_t peak_bytes = 0;     // the most that was active in between
  std::map<std::string, std::int64_t> phase_peak_bytes;  // behind an allocation of the phase
  std::set<std::string> tags;  // innermost frames of allocations and blocks

 private:
  using Json = nlohmann::json;
  struct Block {
    std::int64_t size = 0;
    bool pending = false;  // its release is asked for
  };

  void complain(const std::string& what) { complaints.push_back(what); }

  void load(const std::string& text) {
    const auto snapshot = nlohmann::json::parse(text, nullptr, false);
    if (snapshot.is_discarded() || !snapshot.is_object()) return complain("is no JSON object");
    for (const char* key : {"segments", "device_traces"}) {
      if (!snapshot.contains(key) || !snapshot[key].is_array()) {
        return complain(std::string("has no list of ") + key);
      }
    }
    for (const auto& segment : snapshot["segments"]) load_segment(segment);
    final_bytes = active_bytes();
    for (std::size_t d = 0; d < snapshot["device_traces"].size(); ++d) {
      const auto& trace = snapshot["device_traces"][d];
      if (!trace.is_array()) return complain("device_traces is no list of lists");
      if (trace.empty()) continue;
      devices.insert(static_cast<int>(d));
      events += trace.size();
      load_trace(trace);
    }
    initial_bytes = active_bytes();
  }

  /// The integer at `key`; JavaScript has no larger ones.
  std::int64_t integer(const Json& object, const char* key) {
    constexpr std::int64_t kLargest = std::int64_t{1} << 53;
    if (object.contains(key) && object[key].is_number_integer()) {
      const auto value = object[key].get<std::int64_t>();
      if (value >= 0 && value < kLargest) return value;
    }
    complain(std::string(key) + " is no integer below 2^53: " + object.dump());
    return 0;
  }

  void load_frames(const Json& object) {
    if (!object.contains("frames") || !object["frames"].is_array()) {
      return complain("no list of frames: " + object.dump());
    }
    for (const Json& frame : object["frames"]) {
      if (!frame.value("name", Json()).is_string() ||
          !frame.value("filename", Json()).is_string() ||
          !frame.value("line", Json()).is_number_integer()) {
        complain("no frame: " + frame.dump());
      }
    }
    if (!object["frames"].empty()) tags.insert(object["frames"][0].value("name", ""));
  }

  void load_segment(const Json& segment) {
    devices.insert(static_cast<int>(integer(segment, "device")));
    const std::int64_t begin = integer(segment, "address");
    const std::int64_t size = integer(segment, "total_size");
    integer(segment, "stream");
    add_segment(begin, size);
    load_frames(segment);
    std::int64_t next = begin;  // blocks lie one behind the other
    std::int64_t active = 0;
    for (const Json& block : segment.value("blocks", Json::array())) {
      const std::int64_t bytes = integer(block, "size");
      const std::string state = block.value("state", "");
      if (state == "active_allocated") {
        active += bytes;
        add_block(next, bytes, false);
        if (integer(block, "requested_size") > bytes) complain("more requested than there is");
        load_frames(block);
      } else if (state != "inactive") {
        complain("state of a block: " + state);
      }
      if (integer(block, "address") != next) complain("a block is not behind the one before it");
      next += bytes;
    }
    if (next != begin + size) complain("blocks do not fill their segment");
    for (const char* key : {"allocated_size", "active_size", "requested_size"}) {
      if (integer(segment, key) != active)
        complain(std::string(key) + " is not that of the blocks");
    }
  }

  void load_trace(const Json& trace) {
    std::int64_t later_us = std::int64_t{1} << 53;
    for (auto event = trace.rbegin(); event != trace.rend(); ++event) {
      const std::int64_t time_us = integer(*event, "time_us");
      if (time_us > later_us) complain("time goes back");
      later_us = time_us;
      integer(*event, "stream");
      load_frames(*event);
      if (event->contains("category")) complain("category: viewers fail without an unknown one");
      if (event->value("action", "") == "alloc") note_phase(*event);
      undo(event->value("action", ""), integer(*event, "addr"), integer(*event, "size"));
    }
  }

  void note_phase(const Json& alloc) {
    const Json frames = alloc.value("frames", Json::array());
    if (frames.empty()) return complain("an allocation without frames: " + alloc.dump());
    std::int64_t& peak = phase_peak_bytes[frames[0].value("filename", "")];
    peak = std::max(peak, active_bytes());
  }

  void undo(const std::string& action, std::int64_t address, std::int64_t size) {
    if (action == "segment_free") return add_segment(address, size);
    if (action == "free_completed") return add_block(address, size, true);
    const auto segment = segments_.find(address);
    const auto block = blocks_.find(address);
    if (action == "segment_alloc") {
      if (segment == segments_.end() || segment->second != size) {
        return complain("segment_alloc of no segment");
      }
      const auto inside = blocks_.lower_bound(address);
      if (inside != blocks_.end() && inside->first < address + size) {
        complain("a block is older than its segment");
      }
      segments_.erase(segment);
    } else if (block == blocks_.end() || block->second.size != size) {
      complain(action + " of no block");
    } else if (action == "free_requested") {
      if (!block->second.pending) complain("released twice");
      block->second.pending = false;
    } else if (action == "alloc") {
      if (block->second.pending) complain("release without free_requested");
      blocks_.erase(block);
    } else {
      complain("unknown action: " + action);
    }
  }

  void add_segment(std::int64_t address, std::int64_t size) {
    const auto after = segments_.lower_bound(address);
    const bool meets_next = after != segments_.end() && after->first < address + size;
    const bool meets_last =
        after != segments_.begin() && std::prev(after)->first + std::prev(after)->second > address;
    if (size == 0 || meets_next || meets_last) complain("segments overlap or are empty");
    segments_[address] = size;
  }

  void add_block(std::int64_t address, std::int64_t size, bool pending) {
    const auto after = segments_.upper_bound(address);
    if (after == segments_.begin() ||
        std::prev(after)->first + std::prev(after)->second < address + size) {
      complain("a block lies in no segment");
    }
    if (!blocks_.insert({address, {size, pending}}).second) complain("two blocks at one address");
    peak_bytes = std::max(peak_bytes, active_bytes());
  }

  std::int64_t active_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& [address, block] : blocks_) bytes += block.size;
    return bytes;
  }

  std::map<std::int64_t, std::int64_t> segments_;  // sizes by address
  std::map<std::int64_t, Block> blocks_;
};

}  // namespace lossgrid
