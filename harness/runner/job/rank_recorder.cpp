// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/job/rank_recorder.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "harness/core/wall_clock.h"
#include "harness/device/memory/memory_snapshot.h"

namespace lossgrid {
namespace {

using Track = RankTimeline::Track;

}  // namespace

std::string snapshot_file_name(const Grid& grid, int rank) {
  return fmt::format("snapshot_rank{:02}_p{}d{}c{}t{}.json", rank, grid.pp_rank(rank),
                     grid.dp_rank(rank), grid.cp_rank(rank), grid.tp_rank(rank));
}

RankRecorder::RankRecorder(const TrialRecording& trial, const Grid& grid, int rank)
    : trial_(trial), grid_(grid), rank_(rank) {
  if (trial_.run->snapshots()) history_.emplace(trial_.run->snapshots()->max_entries);
  if (trial_.run->trace() != nullptr) {
    timeline_.emplace(trial_.run->trace(), rank);
    begin_trial_slice();
  }
  scope_.emplace(*this);
}

RankRecorder::~RankRecorder() {
  scope_.reset();
  try {
    end_step();
  } catch (const std::bad_alloc&) {  // no snapshot of this step
  }
}

void RankRecorder::begin_trial_slice() {
  timeline_->begin(Track::work, fmt::format("{} {}", trial_.implementation, format_grid(grid_)),
                   {{"id", trial_.id},
                    {"pp_rank", grid_.pp_rank(rank_)},
                    {"dp_rank", grid_.dp_rank(rank_)},
                    {"cp_rank", grid_.cp_rank(rank_)},
                    {"tp_rank", grid_.tp_rank(rank_)}});
}

void RankRecorder::begin_step(std::int64_t step) {
  end_step();
  if (!history_) return;
  const std::vector<std::int64_t>& steps = trial_.run->snapshots()->steps;
  if (std::find(steps.begin(), steps.end(), step) == steps.end()) return;
  step_ = step;
  history_->start();
}

void RankRecorder::end_step() {
  if (!step_) return;
  history_->stop();
  const SnapshotSubject subject{rank_, *step_, trial_.id, trial_.implementation};
  trial_.run->write_snapshot(
      fmt::format("{}/step_{}/{}", trial_.folder, *step_, snapshot_file_name(grid_, rank_)),
      memory_snapshot(*history_, subject));
  step_.reset();
}

void RankRecorder::begin_phase(std::string_view phase) {
  if (phase == phase_) return;
  end_phase();
  phase_ = phase;
  if (timeline_) timeline_->begin(Track::work, phase);
}

void RankRecorder::end_phase() {
  if (timeline_ && !phase_.empty()) timeline_->end(Track::work);
  phase_.clear();
}

void RankRecorder::enter_call(const ObservedCall& call) {
  if (!timeline_) return;
  timeline_->begin(Track::collectives, fmt::format("{} {}", call.group, call.operation),
                   {{"group", call.group},
                    {"ranks", call.ranks},
                    {"number", call.number},
                    {"elements", call.count},
                    {"dtype", call.dtype},
                    {"bytes", call.payload_bytes}});
}

void RankRecorder::leave_call() {
  if (timeline_) timeline_->end(Track::collectives);
}

void RankRecorder::allocated(std::string_view tag, const std::byte* address, std::size_t bytes) {
  if (history_) {
    const std::string_view phase = phase_.empty() ? "between phases" : std::string_view(phase_);
    history_->allocated(tag, phase, address, bytes, epoch_ns());
  }
  change_live(tag, static_cast<std::int64_t>(bytes));
}

void RankRecorder::released(std::string_view tag, const std::byte* address,
                            std::size_t bytes) noexcept {
  if (history_) history_->released(address, epoch_ns());
  try {
    change_live(tag, -static_cast<std::int64_t>(bytes));
  } catch (const std::bad_alloc&) {  // the next event of the tag sets its track right
  }
}

void RankRecorder::change_live(std::string_view tag, std::int64_t bytes) {
  if (!timeline_ || bytes == 0) return;
  auto live = live_bytes_.find(tag);
  if (live == live_bytes_.end()) live = live_bytes_.emplace(tag, 0).first;
  live->second += bytes;
  total_bytes_ += bytes;
  timeline_->count(fmt::format("memory {}", tag), "bytes", live->second);
  timeline_->count("memory total", "bytes", total_bytes_);
}

}  // namespace lossgrid
