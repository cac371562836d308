// SPDX-License-Identifier: Apache-2.0
// --memory-snapshot and --trace: files about the ranks of a run in addition to the report. Under a
// launcher every process writes the files of its own rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/runner/job/ranks.h"
#include "harness/runner/job/recording.h"

namespace CLI {
class App;
}

namespace lossgrid {

struct RecordingFlags {
  std::string snapshot_folder;  // empty: no snapshots
  std::string steps;            // empty: the default of SnapshotRequest
  std::int64_t max_entries = 0;
  std::string trace;  // empty: no trace

  bool any() const { return !snapshot_folder.empty() || !trace.empty(); }
};

void add_recording_flags(CLI::App& command, RecordingFlags& flags);

/// Opens the files of `flags`; returns null without files. Collective: all processes throw usage
/// for flags that exclude each other, and bad_input for a folder of snapshots that is not empty or
/// files that cannot be written.
std::shared_ptr<RunRecording> open_recording(const RecordingFlags& flags, const Ranks& ranks);

/// Reasons why the files are incomplete; empty if the files are complete.
struct RecordingEnd {
  std::string snapshots_failure;
  std::string trace_failure;

  /// Returns the exit code of a run that ends with `code` except for incomplete files.
  ExitCode exit_code(ExitCode code) const {
    const bool is_whole = snapshots_failure.empty() && trace_failure.empty();
    return is_whole ? code : exit_code_without_output(code);
  }
};

/// Closes the files after the last trial. Does nothing for null. Collective, with the same result
/// on all processes. With `must_end` it is not collective, and the traces of other processes stay
/// in their own files.
RecordingEnd close_recording(RunRecording* recording, const Ranks& ranks, bool must_end);

/// Prints the places of the files, and which files are incomplete, on the process that reports.
void print_recording(const RunRecording* recording, const RecordingEnd& end);

}  // namespace lossgrid
