// SPDX-License-Identifier: Apache-2.0
// Grids of many ranks: the limit that memory sets, and 1,024 and 4,096 ranks in one process.
#include "harness/cli/flags/rank_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/core/error.h"
#include "harness/core/process/sanitizers.h"
#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

Suite suite_on(const char* grid) {
  Suite suite;
  suite.grids = {Grid{}, parse_grid(grid)};
  return suite;
}

TEST(RankLimit, IsThatOfTheFlag) {
  EXPECT_EQ(rank_limit({suite_on("tp64cp64dp64")}, 7), 7);
  EXPECT_EQ(rank_limit({suite_on("tp64cp64dp64")}, 7, /*ranks_are_threads=*/false), 7);
}

TEST(RankLimit, ForProcessesDoesNotDependOnLocalMemory) {
  EXPECT_EQ(rank_limit({suite_on("tp64cp64")}, 0, /*ranks_are_threads=*/false), kMostProcesses);
}

TEST(RankLimit, ForThreadsEndsAtTheLargestNumberOfRanks) {
  EXPECT_EQ(rank_limit({suite_on("tp64cp64dp64")}, 0), kMostRanks);
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "run --grid tp64cp64dp2");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_EQ(result.err,
            "lossgrid: grid tp64cp64dp2 needs 8192 ranks, at most 4096 are allowed "
            "(--max-ranks)\n");
}

TEST(RankLimit, AGridBeyondMemoryIsRefusedWithTheNumbers) {
  const Grid grid = parse_grid("tp16cp16dp4");
  const std::int64_t need_bytes = thread_ranks_bytes(1024);
  EXPECT_EQ(thread_shortage(grid, need_bytes), std::nullopt);
  const auto shortage = thread_shortage(grid, need_bytes - 1);
  ASSERT_TRUE(shortage);
  EXPECT_THAT(shortage->text,
              HasSubstr("grid tp16cp16dp4: not enough memory for 1024 ranks as threads: needs "));
  EXPECT_THAT(shortage->text, HasSubstr(fmt::format("({} bytes)", need_bytes)));
  EXPECT_THAT(shortage->text, HasSubstr(fmt::format("({} bytes)", need_bytes - 1)));
  EXPECT_THAT(shortage->text, HasSubstr("--max-ranks"));
}

// A thousand ranks fit a laptop, and a single one fits anything that runs the executable.
TEST(RankLimit, RanksAreCheap) {
  EXPECT_LT(thread_ranks_bytes(1024), std::int64_t{256} << 20);
  EXPECT_LT(thread_ranks_bytes(1), std::int64_t{1} << 20);
  EXPECT_EQ(thread_ranks_bytes(kMostRanks), 4 * thread_ranks_bytes(1024));
}

void expect_ranks_pass(const std::string& text, const std::string& flags,
                       std::size_t fewest_trials) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  // The default deadline of a trial is the guard against a hang.
  const ProcessResult result =
      run_lossgrid(scratch, "run --grid " + text + " " + flags + " --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const nlohmann::json trials = full_report(report)["trials"];
  EXPECT_GE(trials.size(), fewest_trials);
  const Grid grid = parse_grid(text);
  for (const nlohmann::json& trial : trials) {
    EXPECT_EQ(trial["status"], "passed") << trial["id"] << trial["reason"];
    EXPECT_EQ(trial["case"]["parameters"]["vocab"], 96);
    EXPECT_EQ(trial["grid"]["tp"], grid.tp);
    EXPECT_EQ(trial["grid"]["cp"], grid.cp);
    EXPECT_EQ(trial["grid"]["dp"], grid.dp);
  }
}

TEST(ThousandRanks, PassOnTheBuiltInCase) {
  expect_ranks_pass("tp16cp16dp4", "--max-ranks 1024", 5);
}

TEST(ThousandRanks, NeedNoFlagWhereMemoryAllowsThem) {
  expect_ranks_pass("tp16cp16dp4", "--impl fused", 1);
}

// The largest number of ranks in a run. Sanitizers have less room for threads and take minutes.
TEST(FourThousandRanks, PassOnEveryAxis) {
  if (LOSSGRID_ASAN || LOSSGRID_TSAN) GTEST_SKIP() << "sanitizers are too slow for this";
  expect_ranks_pass("tp64cp64", "--impl cp_local", 1);
  expect_ranks_pass("tp16cp16dp16", "--impl fused", 1);
}

TEST(ThousandRanks, AreRefusedByALowerLimit) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "run --grid tp16cp16dp4 --max-ranks 1023");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_EQ(result.err,
            "lossgrid: grid tp16cp16dp4 needs 1024 ranks, at most 1023 are allowed "
            "(--max-ranks)\n");
}

}  // namespace
}  // namespace lossgrid
