// SPDX-License-Identifier: Apache-2.0
// `RankRecorder`: records one rank of one trial or timing: into the trace of the run as it happens,
// and as a memory snapshot at the end of each requested step. On the thread of the rank from its
// construction to its end.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "harness/comm/process_grid.h"
#include "harness/core/rank_observer.h"
#include "harness/core/rank_timeline.h"
#include "harness/device/memory/memory_history.h"
#include "harness/runner/job/recording.h"

namespace lossgrid {

/// Returns "snapshot_rank05_p0d1c0t1.json": the rank and its place along pp, dp, cp and tp.
std::string snapshot_file_name(const Grid& grid, int rank);

class RankRecorder final : public RankObserver {
 public:
  RankRecorder(const TrialRecording& trial, const Grid& grid, int rank);
  /// Ends phase and step: a step that an exception cut short is written too.
  ~RankRecorder() override;
  RankRecorder(const RankRecorder&) = delete;
  RankRecorder& operator=(const RankRecorder&) = delete;

  void begin_step(std::int64_t step) override;
  void end_step() override;
  void begin_phase(std::string_view phase) override;
  void end_phase() override;
  void enter_call(const ObservedCall& call) override;
  void leave_call() override;
  void allocated(std::string_view tag, const std::byte* address, std::size_t bytes) override;
  void released(std::string_view tag, const std::byte* address,
                std::size_t bytes) noexcept override;

 private:
  void begin_trial_slice();
  void change_live(std::string_view tag, std::int64_t bytes);

  const TrialRecording trial_;
  const Grid grid_;
  const int rank_;
  std::optional<MemoryHistory> history_;
  std::optional<RankTimeline> timeline_;
  std::string phase_;                                            // empty between phases
  std::optional<std::int64_t> step_;                             // that a snapshot is made of
  std::map<std::string, std::int64_t, std::less<>> live_bytes_;  // by tag
  std::int64_t total_bytes_ = 0;
  std::optional<ObserverScope> scope_;
};

}  // namespace lossgrid
