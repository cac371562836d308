// SPDX-License-Identifier: Apache-2.0
// --memory-snapshot and --trace as their readers see them: every file loads, and has the bytes,
// phases and collectives of the report.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "full_report.h"
#include "process.h"
#include "snapshot_loader.h"
#include "trace_loader.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

/// Returns the paths of the files below `folder`, relative to it.
std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> files;
  if (!fs::exists(folder)) return files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), folder).string());
  }
  return files;
}

json trials_of(const std::string& report) {
  return full_report(report)["trials"];
}

/// Returns the report's rows of `rank`.
std::vector<json> rows_of(const json& rows, int rank) {
  std::vector<json> own;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
               [&](const json& row) { return row["rank"] == rank; });
  return own;
}

TEST(MemorySnapshots, HoldTheBytesOfTheReportForEveryRankAndTrial) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("new/snaps");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "run --case 'lens=5+8+6 vocab=24' --impl fused,cp_local --grid tp2,cp2dp2pp2 "
                   "--memory-snapshot " +
                       folder + " --report " + scratch.file("r.json"));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("memory snapshots: " + folder));
  const json trials = trials_of(scratch.file("r.json"));
  std::set<std::string> expected;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const bool first_grid = t % 2 == 0;
    const std::string name = "trial000" + std::to_string(t + 1) + "_" +
                             (first_grid ? "tp2cp1" : "tp1cp2dp2pp2") + "_" +
                             (t < 2 ? "fused" : "cp_local") + "/step_0/snapshot_rank0";
    for (int rank = 0; rank < (first_grid ? 2 : 8); ++rank) {
      const std::string place = first_grid ? "_p0d0c0t" + std::to_string(rank)
                                           : "_p" + std::to_string(rank / 4) + "d" +
                                                 std::to_string(rank / 2 % 2) + "c" +
                                                 std::to_string(rank % 2) + "t0";
      const std::string file = name + std::to_string(rank) + place + ".json";
      expected.insert(file);
      const LoadedSnapshot snapshot(read_all(folder + "/" + file));
      EXPECT_THAT(snapshot.complaints, IsEmpty()) << file;
      EXPECT_EQ(snapshot.initial_bytes, 0);
      if (!first_grid && rank < 4) {  // an earlier stage has no logits
        EXPECT_EQ(snapshot.events, 0u);
        continue;
      }
      EXPECT_THAT(snapshot.devices, ElementsAre(rank));
      EXPECT_THAT(snapshot.tags, IsSupersetOf({"logits", "grad_logits", "token_outputs"}));
      EXPECT_GT(snapshot.final_bytes, 0);
      std::size_t compared = 0;
      for (const json& row : rows_of(trials[t]["memory"], rank)) {
        if (row["measured_allocations"] == 0) continue;
        ++compared;
        EXPECT_EQ(snapshot.phase_peak_bytes.at(row["phase"]),
                  row["measured_peak_with_inputs_bytes"])
            << file << row;
      }
      EXPECT_GT(compared, 0u);
    }
  }
  EXPECT_EQ(files_in(folder), expected);
}

TEST(MemorySnapshots, KeepChosenStepsInABoundedRing) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("snaps");
  const ProcessResult result = run_lossgrid(
      scratch,
      "run --case 'lens=5+8+6 vocab=24 microbatches=3' --impl fused --profile-steps 2,0,7 "
      "--max-entries 5 --memory-snapshot " +
          folder);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::string trial = "trial0001_tp1cp1_fused/";
  const std::string file = "/snapshot_rank00_p0d0c0t0.json";
  EXPECT_THAT(files_in(folder),
              UnorderedElementsAre(trial + "step_0" + file, trial + "step_2" + file));
  for (const char* step : {"step_0", "step_2"}) {
    const LoadedSnapshot snapshot(read_all(folder + "/" + trial + step + file));
    EXPECT_THAT(snapshot.complaints, IsEmpty());
    EXPECT_GE(snapshot.events, 2u * 5);
    EXPECT_LE(snapshot.events, 3u * 5);
    EXPECT_GT(snapshot.initial_bytes, 0);  // from entries that the ring has dropped
  }
}

// A rank that throws frees its buffers; its allocations are in the events.
TEST(MemorySnapshots, HoldAStepThatWasCutShort) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("snaps");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "run --case 'lens=5+8 vocab=24' --impl fused --grid tp2 --inject "
                   "rank=1,at=backward,kind=oom --memory-snapshot " +
                       folder);
  EXPECT_EQ(result.exit_code, 14);
  const LoadedSnapshot snapshot(
      read_all(folder + "/trial0001_tp2cp1_fused/step_0/snapshot_rank01_p0d0c0t1.json"));
  EXPECT_THAT(snapshot.complaints, IsEmpty());
  EXPECT_THAT(snapshot.tags, IsSupersetOf({"logits"}));
  EXPECT_EQ(snapshot.initial_bytes, 0);
  EXPECT_EQ(snapshot.final_bytes, 0);
}

/// Returns calls and bytes of a rank's collectives in a phase, by group and operation.
std::map<std::string, std::pair<std::int64_t, std::int64_t>> collectives_in(
    const LoadedTrace& trace, int rank, const std::string& phase) {
  const auto in_phase = std::find_if(
      trace.slices.begin(), trace.slices.end(),
      [&](const LoadedSlice& slice) { return slice.process == rank && slice.name == phase; });
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> collectives;
  if (in_phase == trace.slices.end()) return collectives;
  for (const LoadedSlice& slice : trace.slices) {
    if (slice.process != rank || slice.thread == in_phase->thread) continue;
    if (slice.begin_us < in_phase->begin_us || slice.end_us > in_phase->end_us) continue;
    auto& [calls, bytes] = collectives[slice.name];
    ++calls;
    bytes += slice.arguments["bytes"].get<std::int64_t>();
  }
  return collectives;
}

TEST(Trace, HasThePhasesAndCollectivesOfTheReport) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("new/t.json");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "run --case 'lens=5+8+6 vocab=24' --impl per_sequence --grid tp2cp2 "
                   "--trace " +
                       file + " --report " + scratch.file("r.json"));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("trace: " + file));
  const LoadedTrace trace(read_all(file));
  EXPECT_THAT(trace.complaints, IsEmpty());
  EXPECT_TRUE(trace.is_closed);
  const json trial = trials_of(scratch.file("r.json"))[0];
  std::size_t compared = 0;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(trace.process_names.at(rank), "rank " + std::to_string(rank));
    std::vector<std::string> phases;
    for (const LoadedSlice& slice : trace.slices) {
      EXPECT_FALSE(slice.is_open()) << slice.name;
      if (slice.process == rank && slice.thread == 1 && slice.depth == 1) {
        phases.push_back(slice.name);
      }
    }
    EXPECT_THAT(phases, ElementsAre("setup", "plan", "forward", "backward", "check"));
    for (const json& row : rows_of(trial["communication"], rank)) {
      if (row["phase"] != "forward" && row["phase"] != "backward") continue;
      if (row["measured_calls"] == 0) continue;
      const std::string name =
          row["group"].get<std::string>() + " " + row["operation"].get<std::string>();
      const auto found = collectives_in(trace, rank, row["phase"])[name];
      EXPECT_EQ(found.first, row["measured_calls"]) << row;
      EXPECT_EQ(found.second, row["measured_payload_bytes"]) << row;
      ++compared;
    }
    const std::vector<std::int64_t>& total = trace.counters.at({rank, "memory total bytes"});
    EXPECT_EQ(total.back(), 0);
    for (const json& row : rows_of(trial["memory"], rank)) {
      EXPECT_THAT(total, testing::Contains(row["measured_peak_with_inputs_bytes"]));
    }
    EXPECT_EQ(trace.counters.at({rank, "memory logits bytes"}).back(), 0);
  }
  EXPECT_GE(compared, 3u);  // the report has one rank for each group
}

TEST(Trace, ShowsTheLastPhaseOfAKilledProcess) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("t.json");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "run --case 'lens=5+8 vocab=24' --impl fused --grid tp1,tp2 --inject "
                   "rank=1,at=backward,kind=kill --trace " +
                       file);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  const std::string text = read_all(file);
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', end + 1)) {
    ASSERT_THAT(LoadedTrace(text.substr(0, end)).complaints, IsEmpty());
  }
  const LoadedTrace trace(text);
  EXPECT_THAT(trace.complaints, IsEmpty());
  EXPECT_FALSE(trace.is_closed);
  std::vector<std::string> open;
  for (const LoadedSlice& slice : trace.slices) {
    if (slice.process == 1 && slice.is_open()) open.push_back(slice.name);
  }
  EXPECT_THAT(open, ElementsAre("fused tp2cp1", "backward"));
}

TEST(Recording, HoldsTheStepsAndPhasesOfATiming) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("snaps");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "bench --case 'lens=5+8 vocab=24' --impl fused,per_sequence --min-samples 2 "
                   "--target-stderr 1 --max-seconds 0.01 --profile-steps 1 --memory-snapshot " +
                       folder + " --trace " + scratch.file("t.json"));
  EXPECT_THAT(result.out, HasSubstr("not representative: ")) << result.out << result.err;
  const std::string file = "timing0001_tp1cp1_hot/step_1/snapshot_rank00_p0d0c0t0.json";
  EXPECT_THAT(files_in(folder), ElementsAre(file));
  const LoadedSnapshot snapshot(read_all(folder + "/" + file));
  EXPECT_THAT(snapshot.complaints, IsEmpty());
  EXPECT_GT(snapshot.final_bytes, 0);
  const LoadedTrace trace(read_all(scratch.file("t.json")));
  EXPECT_THAT(trace.complaints, IsEmpty());
  std::set<std::string> phases;
  for (const LoadedSlice& slice : trace.slices) {
    if (slice.depth == 1) phases.insert(slice.name);
  }
  EXPECT_THAT(phases, IsSupersetOf({"setup", "fused forward", "fused backward",
                                    "per_sequence forward_backward"}));
}

TEST(Recording, RefusesBadFlagsAndPlacesInOneLine) {
  const ScratchFolder scratch;
  write_all(scratch.file("full"), "a file");
  fs::create_directory(scratch.file("old"));
  write_all(scratch.file("old/snapshot"), "of another run");
  struct Refused {
    std::string flags;
    int exit_code;
    std::string message;
  };
  const Refused all[] = {
      {"--memory-snapshot " + scratch.file("full"), 65,
       "cannot write memory snapshots to " + scratch.file("full") + ": "},
      {"--memory-snapshot " + scratch.file("old"), 65,
       "cannot write memory snapshots to " + scratch.file("old") + ": the folder is not empty"},
      {"--trace " + scratch.path(), 65, "cannot write " + scratch.path() + ": it is a folder"},
      {"--trace /dev/full", 65, "cannot write /dev/full: No space left on device"},
      {"--max-entries 3 --trace t.json", 64,
       "--profile-steps and --max-entries need --memory-snapshot"},
      {"--profile-steps 1,-2 --memory-snapshot " + scratch.file("new"), 65, "--profile-steps"},
      {"--max-entries 0 --memory-snapshot " + scratch.file("new"), 64, "--max-entries"},
      {"--supervise --report r.json --trace t.json", 64, "do not go with --supervise"},
  };
  for (const Refused& refused : all) {
    const ProcessResult result =
        run_lossgrid(scratch, "run --case 'lens=5 vocab=24' --impl fused " + refused.flags);
    EXPECT_EQ(result.exit_code, refused.exit_code) << refused.flags << result.out;
    EXPECT_THAT(result.err, HasSubstr(refused.message));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(read_all(scratch.file("old/snapshot")), "of another run");
}

// The verdict is in the report, and the run ends with the exit code of output that could not be
// written.
TEST(Recording, ReportsALostFolderAtTheEnd) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("snaps");
  // The second trial finds a file where its folder should be.
  const ProcessResult result = run_lossgrid(
      scratch, "run --case 'lens=5 vocab=24' --impl fused --grid tp1,tp2 --memory-snapshot " +
                   folder + " --trace " + folder + "/trial0002_tp2cp1_fused");
  EXPECT_EQ(result.exit_code, 65) << result.out;
  EXPECT_THAT(result.err, HasSubstr("cannot write " + folder + "/trial0002_tp2cp1_fused/step_0"));
  EXPECT_THAT(result.out, HasSubstr("2 passed"));
}

}  // namespace
}  // namespace lossgrid
