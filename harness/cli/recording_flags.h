// SPDX-License-Identifier: Apache-2.0
// --memory-snapshot and --trace: what a run writes of its ranks beside the report. Under a launcher
// every process writes what its own rank does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/runner/ranks.h"
#include "harness/runner/recording.h"

namespace CLI {
class App;
}

namespace lossgrid {

struct RecordingFlags {
  std::string snapshot_folder;  // empty: no snapshots
  std::string steps;            // empty: as SnapshotRequest has them
  std::int64_t max_entries = 0;
  std::string trace;  // empty: none

  bool any() const { return !snapshot_folder.empty() || !trace.empty(); }
};

void add_recording_flags(CLI::App& command, RecordingFlags& flags);

/// Opens what `flags` ask for, null for nothing. Collective over the processes: all of them throw
/// usage for flags that do not go together, bad_input for a folder of snapshots that is not empty
/// and for what cannot be written.
std::shared_ptr<RunRecording> open_recording(const RecordingFlags& flags, const Ranks& ranks);

/// Why what was recorded is not whole; empty where it is.
struct RecordingEnd {
  std::string snapshots_failure;
  std::string trace_failure;

  /// Of a run that ends with `code` otherwise.
  ExitCode exit_code(ExitCode code) const {
    const bool is_whole = snapshots_failure.empty() && trace_failure.empty();
    return is_whole ? code : exit_code_without_output(code);
  }
};

/// Closes the files when all trials are over. Does nothing for null. Collective, with the same
/// result on all processes, unless `must_end`: then what other processes traced stays in their
/// files.
RecordingEnd close_recording(RunRecording* recording, const Ranks& ranks, bool must_end);

/// Prints where the files are and what is not whole, on the process that reports.
void print_recording(const RunRecording* recording, const RecordingEnd& end);

}  // namespace lossgrid
