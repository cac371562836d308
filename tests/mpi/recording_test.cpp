// SPDX-License-Identifier: Apache-2.0
// --memory-snapshot and --trace under a launcher: every process writes the files of its rank.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"
#include "snapshot_loader.h"
#include "trace_loader.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

ProcessResult trace_processes(const ScratchFolder& scratch, int processes,
                              const std::string& arguments) {
  return run_executable(
      scratch, LOSSGRID_MPIEXEC,
      fmt::format("{} {} '{}' run --case 'lens=5+8 vocab=24' --impl fused --grid tp2 --trace {} {}",
                  LOSSGRID_MPIEXEC_NUMPROC_FLAG, processes, LOSSGRID_EXECUTABLE,
                  scratch.file("t.json"), arguments));
}

TEST(LaunchedRecording, IsOneTraceAndASnapshotOfEachProcess) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("snaps");
  const ProcessResult result = trace_processes(scratch, 3, "--memory-snapshot " + folder);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;  // one process is idle
  const LoadedTrace trace(read_all(scratch.file("t.json")));
  EXPECT_THAT(trace.complaints, IsEmpty());
  EXPECT_TRUE(trace.is_closed);
  EXPECT_THAT(trace.process_names, ElementsAre(Pair(0, "rank 0"), Pair(1, "rank 1")));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(fs::exists(scratch.file(fmt::format("t.json.rank{}", rank + 1))));
    const LoadedSnapshot snapshot(read_all(fmt::format(
        "{}/trial0001_tp2cp1_fused/step_0/snapshot_rank{:02}_p0d0c0t{}.json", folder, rank, rank)));
    EXPECT_THAT(snapshot.complaints, IsEmpty());
    EXPECT_THAT(snapshot.devices, ElementsAre(rank));
  }
}

TEST(LaunchedRecording, KeepsAKilledProcessInItsOwnFile) {
  const ScratchFolder scratch;
  EXPECT_NE(trace_processes(scratch, 2, "--inject rank=1,at=backward,kind=kill").exit_code, 0);
  for (const char* file : {"t.json", "t.json.rank1"}) {
    const LoadedTrace trace(read_all(scratch.file(file)));
    EXPECT_THAT(trace.complaints, IsEmpty()) << file;
    ASSERT_FALSE(trace.slices.empty());
    EXPECT_TRUE(trace.slices.front().is_open()) << trace.slices.front().name;
  }
}

}  // namespace
}  // namespace lossgrid
