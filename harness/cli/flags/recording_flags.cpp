// SPDX-License-Identifier: Apache-2.0
// Under a launcher each process writes its own trace: FILE on rank 0, FILE.rank3 on rank 3. At the
// end rank 0 appends the traces that it can see to its own; after a crash each file can be loaded
// on its own.
#include "harness/cli/flags/recording_flags.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/cli/text/output.h"
#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/core/wall_clock.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

std::string trace_path(const std::string& path, int process) {
  return process == 0 ? path : fmt::format("{}.rank{}", path, process);
}

SnapshotRequest snapshot_request(const RecordingFlags& flags) {
  SnapshotRequest request;
  request.folder = flags.snapshot_folder;
  if (flags.max_entries > 0) request.max_entries = static_cast<std::size_t>(flags.max_entries);
  if (flags.steps.empty()) return request;
  request.steps.clear();
  for (const std::string& step : parse_list(flags.steps)) {
    request.steps.push_back(parse_integer(step, "--profile-steps", 0, 1'000'000'000));
  }
  return request;
}

/// Makes the folder. Throws io if it may hold snapshots of another run.
void prepare_folder(const std::string& folder) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::io,
                fmt::format("cannot write memory snapshots to {}: {}", folder, reason));
  };
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse(error.message());
  const bool is_empty = fs::is_empty(folder, error);
  if (error) refuse(error.message());
  if (!is_empty) refuse("the folder is not empty");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(std::generic_category().message(errno));
}

/// Calls `f`. Collective: if one process has an error, all processes throw it.
template <typename F>
void agree_on(const Ranks& ranks, F&& f) {
  std::string refused;
  try {
    f();
  } catch (const Error& error) {
    refused = error.what();
  }
  refused = ranks.agree_on_first_error(refused);
  if (!refused.empty()) throw_bad_input("{}", refused);
}

/// Closes the trace. Returns the reason why it is incomplete; empty if it is complete.
std::string close_trace(RunRecording& recording, int other_processes) {
  TraceFile* trace = recording.trace().get();
  if (trace == nullptr) return "";
  try {
    for (int p = 1; p <= other_processes; ++p) trace->take(trace_path(trace->path(), p));
    trace->finish();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

void add_recording_flags(CLI::App& command, RecordingFlags& flags) {
  command.add_option("--memory-snapshot", flags.snapshot_folder,
                     "write what every rank allocates here, an empty folder, for "
                     "pytorch.org/memory_viz: TRIAL/step_N/snapshot_rank05_p0d1c0t1.json");
  command.add_option("--profile-steps", flags.steps,
                     "with --memory-snapshot: the microbatches of a trial, or rounds of a timing, "
                     "that have a snapshot, comma separated, from 0 (default 0,1)");
  command
      .add_option("--max-entries", flags.max_entries,
                  "with --memory-snapshot: allocations and releases that are kept of a step, the "
                  "last ones (default 100000)")
      ->check(CLI::Range(1, 100'000'000));
  command.add_option("--trace", flags.trace,
                     "write phases, collectives and memory of every rank here while the run goes "
                     "on, as Chrome trace events for ui.perfetto.dev");
}

std::shared_ptr<RunRecording> open_recording(const RecordingFlags& flags, const Ranks& ranks) {
  if (flags.snapshot_folder.empty() && (!flags.steps.empty() || flags.max_entries > 0)) {
    throw Error(ErrorCode::usage, "--profile-steps and --max-entries need --memory-snapshot");
  }
  if (!flags.any()) return nullptr;
  std::optional<SnapshotRequest> snapshots;
  std::shared_ptr<TraceFile> trace;
  if (!flags.snapshot_folder.empty()) {
    snapshots = snapshot_request(flags);
    agree_on(ranks, [&] {
      if (ranks.reports()) prepare_folder(flags.snapshot_folder);
    });
  }
  if (!flags.trace.empty()) {
    // All processes count time from the origin of rank 0.
    const std::int64_t origin_ns = std::stoll(ranks.share_of_reporter(std::to_string(epoch_ns())));
    agree_on(ranks, [&] {
      trace = std::make_shared<TraceFile>(trace_path(flags.trace, ranks.process()), origin_ns);
    });
  }
  return std::make_shared<RunRecording>(std::move(snapshots), std::move(trace));
}

RecordingEnd close_recording(RunRecording* recording, const Ranks& ranks, bool must_end) {
  if (recording == nullptr) return {};
  if (must_end) return {recording->failure(), close_trace(*recording, 0)};
  RecordingEnd end;
  end.snapshots_failure = ranks.agree_on_first_error(recording->failure());
  // The other processes close their traces first, because rank 0 appends them to its own.
  const std::string of_others =
      ranks.agree_on_first_error(ranks.reports() ? "" : close_trace(*recording, 0));
  const std::string own = ranks.reports() ? close_trace(*recording, ranks.limit() - 1) : "";
  end.trace_failure = ranks.agree_on_first_error(own.empty() ? of_others : own);
  return end;
}

void print_recording(const RunRecording* recording, const RecordingEnd& end) {
  if (recording == nullptr) return;
  const auto print_place = [](const char* what, std::string place, const std::string& failure) {
    if (!failure.empty()) place += fmt::format(", INCOMPLETE: {}", failure);
    print("{}: {}\n", what, place);
    if (!failure.empty()) print_message(failure);
  };
  if (recording->snapshots()) {
    const bool has_any = recording->written_snapshots() > 0 || !end.snapshots_failure.empty();
    print_place("memory snapshots",
                has_any ? recording->snapshots()->folder
                        : "none, nothing came to a step of --profile-steps",
                end.snapshots_failure);
  }
  if (recording->trace() != nullptr) {
    print_place("trace", recording->trace()->path(), end.trace_failure);
  }
}

}  // namespace lossgrid
