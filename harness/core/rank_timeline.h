// SPDX-License-Identifier: Apache-2.0
// RankTimeline: tracks of one rank in a trace: its phases, its collectives, and counters. A slice
// is written at its begin and at its end, so that the file also holds a slice that a crash
// interrupts. One rank, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/core/trace_file.h"

namespace lossgrid {

class RankTimeline {
 public:
  enum class Track { work, collectives };

  /// Names the process ("rank 3") and its tracks if this is the first timeline of the rank.
  RankTimeline(std::shared_ptr<TraceFile> file, int rank);
  /// Ends all open slices.
  ~RankTimeline();
  RankTimeline(const RankTimeline&) = delete;
  RankTimeline& operator=(const RankTimeline&) = delete;

  /// Begins a slice. Slices of a track nest.
  void begin(Track track, std::string_view name, const nlohmann::ordered_json& arguments = {});
  /// Ends the innermost slice, if there is one.
  void end(Track track);
  int open_slices(Track track) const { return open_[index(track)]; }
  /// Adds a value of a counter, valid from now on.
  void count(std::string_view name, std::string_view unit, std::int64_t value);

 private:
  static std::size_t index(Track track) { return static_cast<std::size_t>(track); }
  void name_tracks();
  void add(nlohmann::ordered_json event);

  std::shared_ptr<TraceFile> file_;
  int rank_;
  std::array<int, 2> open_{};
};

}  // namespace lossgrid
