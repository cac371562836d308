// SPDX-License-Identifier: Apache-2.0
#include "harness/core/rank_timeline.h"

#include <new>

#include <fmt/format.h>

#include "harness/core/wall_clock.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

constexpr double kNsPerUs = 1000;

int track_thread(RankTimeline::Track track) {
  return static_cast<int>(track) + 1;
}

}  // namespace

RankTimeline::RankTimeline(std::shared_ptr<TraceFile> file, int rank)
    : file_(std::move(file)), rank_(rank) {
  if (file_->is_new(rank)) name_tracks();
}

RankTimeline::~RankTimeline() {
  try {
    for (const Track track : {Track::collectives, Track::work}) {
      while (open_slices(track) > 0) end(track);
    }
  } catch (const std::bad_alloc&) {  // viewers end open slices with the trace
  }
}

void RankTimeline::name_tracks() {
  const auto name = [this](const char* what, int thread, const ordered_json& arguments) {
    ordered_json event = {{"ph", "M"}, {"name", what}, {"pid", rank_}};
    if (thread > 0) event["tid"] = thread;
    event["args"] = arguments;
    add(std::move(event));
  };
  name("process_name", 0, {{"name", fmt::format("rank {}", rank_)}});
  name("process_sort_index", 0, {{"sort_index", rank_}});
  name("thread_name", track_thread(Track::work), {{"name", "phases"}});
  name("thread_name", track_thread(Track::collectives), {{"name", "collectives"}});
}

void RankTimeline::begin(Track track, std::string_view name, const ordered_json& arguments) {
  ordered_json event = {{"ph", "B"},
                        {"name", name},
                        {"cat", track == Track::work ? "phase" : "collective"},
                        {"tid", track_thread(track)}};
  if (!arguments.is_null()) event["args"] = arguments;
  ++open_[index(track)];
  add(std::move(event));
}

void RankTimeline::end(Track track) {
  if (open_slices(track) == 0) return;
  --open_[index(track)];
  add({{"ph", "E"}, {"tid", track_thread(track)}});
}

void RankTimeline::count(std::string_view name, std::string_view unit, std::int64_t value) {
  add({{"ph", "C"}, {"name", name}, {"args", {{unit, value}}}});
}

void RankTimeline::add(ordered_json event) {
  event["pid"] = rank_;
  event["ts"] = static_cast<double>(epoch_ns() - file_->origin_ns()) / kNsPerUs;
  file_->add(event.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace lossgrid
