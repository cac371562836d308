// SPDX-License-Identifier: Apache-2.0
// Under a launcher the processes trace into files of their own: FILE is that of rank 0, FILE.rank3
// that of rank 3. At the end rank 0 puts those that it can see behind its own; after a crash each
// of them can be loaded as it is.
#include "harness/cli/recording_flags.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/core/wall_clock.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

std::string trace_path(const std::string& path, int process) {
  return process == 0 ? path : fmt::format("{}.rank{}", path, process);
}

SnapshotRequest request_of(const RecordingFlags& flags) {
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

/// Makes the folder. Throws io when snapshots of another run may be there.
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

/// Collective: all that one process refuses, all refuse.
template <typename F>
void agree_on(const Ranks& ranks, F&& f) {
  std::string refused;
  try {
    f();
  } catch (const Error& error) {
    refused = error.what();
  }
  refused = ranks.first_text(refused);
  if (!refused.empty()) throw_bad_input("{}", refused);
}

void print_places(const RunRecording& recording) {
  if (recording.snapshots()) {
    fmt::print("memory snapshots: {}\n", recording.written_snapshots() > 0
                                             ? recording.snapshots()->folder
                                             : "none, nothing came to a step of --profile-steps");
  }
  if (recording.trace() != nullptr) fmt::print("trace: {}\n", recording.trace()->path());
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
    snapshots = request_of(flags);
    agree_on(ranks, [&] {
      if (ranks.reports()) prepare_folder(flags.snapshot_folder);
    });
  }
  if (!flags.trace.empty()) {
    // All processes count from the moment of rank 0.
    const std::int64_t origin_ns = std::stoll(ranks.first_text(std::to_string(epoch_ns())));
    agree_on(ranks, [&] {
      trace = std::make_shared<TraceFile>(trace_path(flags.trace, ranks.process()), origin_ns);
    });
  }
  return std::make_shared<RunRecording>(std::move(snapshots), std::move(trace));
}

void finish_recording(RunRecording* recording, const Ranks& ranks, bool must_end) {
  if (recording == nullptr) return;
  if (ranks.reports()) print_places(*recording);
  const auto finish_own = [&] {
    if (recording->trace() != nullptr) recording->trace()->finish();
    if (!recording->failure().empty()) throw Error(ErrorCode::io, recording->failure());
  };
  if (must_end) {
    try {
      finish_own();
    } catch (const Error& error) {  // the process ends with the code of the trial
      fmt::print(stderr, "lossgrid: {}\n", error.what());
    }
    return;
  }
  agree_on(ranks, [&] {
    if (!ranks.reports()) finish_own();
  });
  agree_on(ranks, [&] {
    if (!ranks.reports()) return;
    if (recording->trace() != nullptr) {
      TraceFile& trace = *recording->trace();
      for (int p = 1; p < ranks.limit(); ++p) trace.take(trace_path(trace.path(), p));
    }
    finish_own();
  });
}

}  // namespace lossgrid
