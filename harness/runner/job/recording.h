// SPDX-License-Identifier: Apache-2.0
// `RunRecording`: records of a run's ranks beside the report: memory snapshots, a trace. Off by
// default. Ranks share it, and one that hangs keeps it. A file that cannot be written changes no
// verdict; the first such failure is reported when the run is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/trace_file.h"

namespace lossgrid {

struct SnapshotRequest {
  std::string folder;
  // Steps of every trial and timing, from 0: the microbatches of a trial, the rounds of a timing,
  // warm-up included.
  std::vector<std::int64_t> steps{0, 1};
  std::size_t max_entries = 100'000;  // allocations and releases of a rank in a step
};

class RunRecording {
 public:
  /// Makes no snapshots without a request, and no trace without a file.
  RunRecording(std::optional<SnapshotRequest> snapshots, std::shared_ptr<TraceFile> trace)
      : snapshots_(std::move(snapshots)), trace_(std::move(trace)) {}

  const std::optional<SnapshotRequest>& snapshots() const { return snapshots_; }
  const std::shared_ptr<TraceFile>& trace() const { return trace_; }

  /// Writes a snapshot. Callable on any thread.
  void write_snapshot(const std::string& path, const std::string& text);
  std::size_t written_snapshots() const;
  /// Returns the first failure to write a snapshot; empty when there is none.
  std::string failure() const;

 private:
  const std::optional<SnapshotRequest> snapshots_;
  const std::shared_ptr<TraceFile> trace_;
  mutable std::mutex mutex_;
  std::size_t written_snapshots_ = 0;
  std::string failure_;
};

/// Recording of one trial or timing of a run.
struct TrialRecording {
  std::shared_ptr<RunRecording> run;
  std::string id;
  std::string implementation;  // in a timing "fused, per_sequence"
  std::string folder;          // of its snapshots, in that of the run
};

/// Returns the recording of the `number`-th trial or timing of a run, nullopt where `run` is null.
/// `kind`: "trial" or "timing"; `label` ends the name of the folder: "trial0003_tp2cp2_fused".
std::optional<TrialRecording> record_trial(const std::shared_ptr<RunRecording>& run,
                                           const std::string& kind, std::int64_t number,
                                           const std::string& label, const std::string& id,
                                           const std::string& implementation);

}  // namespace lossgrid
