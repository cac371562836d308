// SPDX-License-Identifier: Apache-2.0
// lossgrid bench as a process: tables, a report that its schema accepts, and one line for flags
// that make no sense. Cases are tiny; no number is checked.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Flags for a few samples.
constexpr const char* kFew = " --min-samples 2 --target-stderr 1 --max-seconds 20";

int validate(const ScratchFolder& scratch, const std::string& report) {
  return run_lossgrid(scratch, "validate " + report).exit_code;
}

TEST(Bench, TimesHotAndColdAndWritesAValidReport) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("bench.json");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "bench --case 'lens=5+8 vocab=96' --impl per_sequence,fused,linear_ce --grid "
                   "tp2cp1,tp1cp1dp2,pp2 --cache hot,cold --threads-per-rank 1 --report " +
                       report + kFew);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("on tp2cp1, cache hot"));
  EXPECT_THAT(result.out, HasSubstr("on tp2cp1, cache cold"));
  EXPECT_THAT(result.out, HasSubstr("skipped on tp1cp1dp2, cache hot: only one dp rank"));
  EXPECT_THAT(result.out, HasSubstr("skipped on tp1cp1pp2, cache hot: only one pipeline stage"));
  EXPECT_THAT(result.out, HasSubstr("straggler: rank "));
  EXPECT_THAT(result.out, Not(HasSubstr("passed")));
  EXPECT_EQ(validate(scratch, report), 0);
  const json parsed = json::parse(read_all(report));
  EXPECT_EQ(parsed["run"]["command"], "bench");
  EXPECT_TRUE(parsed["trials"].empty());
  EXPECT_GE(parsed["meter"].size(), 3u);
  ASSERT_EQ(parsed["timings"].size(), 6u);
  const json& hot = parsed["timings"][0];
  EXPECT_EQ(hot["cache"], "hot");
  EXPECT_EQ(hot["threads_per_rank"], 1);
  EXPECT_EQ(hot["rows"].size(), 6u);
  EXPECT_EQ(hot["baseline"], "per_sequence");
  EXPECT_EQ(hot["skipped"][0]["implementation"], "linear_ce");
  EXPECT_EQ(parsed["timings"][1]["cache"], "cold");
  EXPECT_FALSE(std::filesystem::exists(report + ".partial.jsonl"));
}

TEST(Bench, WritesAValidReportForAnLmHead) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("bench.json");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "bench --case 'lens=24 vocab=96 hidden=16' --impl linear_materialized,linear_ce "
                   "--baseline linear_ce --order-seed 7 --report " +
                       report + kFew);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(validate(scratch, report), 0);
  const json timing = json::parse(read_all(report))["timings"][0];
  EXPECT_EQ(timing["baseline"], "linear_ce");
  EXPECT_EQ(timing["order_seed"], 7);
  EXPECT_EQ(timing["ceilings"][0]["name"], "gemm_logits");
}

TEST(Bench, RunsTheWholePathOnAnEmulatedGpu) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("gpu.json");
  const std::string arguments =
      "run --case 'lens=5+8 vocab=24' --impl fused,one_sweep:in_place=true --mode verify,bench "
      "--grid tp1cp1,tp2cp1 --cache hot,cold --backend cuda_emulated --report ";
  const ProcessResult result = run_lossgrid(scratch, arguments + report + kFew);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out,
              ContainsRegex("on tp2cp1, cache cold, .*, backend cuda_emulated, steady_clock,"));
  EXPECT_EQ(validate(scratch, report), 0);
  const json parsed = json::parse(read_all(report));
  ASSERT_EQ(parsed["timings"].size(), 4u);
  for (const json& timing : parsed["timings"]) {
    EXPECT_EQ(timing["backend"], "cuda_emulated");
    EXPECT_EQ(timing["timer"], "steady_clock");
    EXPECT_EQ(timing["representative_reason"], "kernels of a GPU run on the processor");
    ASSERT_EQ(timing["rows"].size(), 4u);
    for (const json& row : timing["rows"]) {
      EXPECT_GE(row["kernel_launches"], 1) << row;
      EXPECT_GE(row["host_synchronisations"], 1) << row;
    }
    EXPECT_EQ(timing["ceilings"].size(), 3u);
  }
  // Timings of another backend are not taken over.
  const ProcessResult resumed =
      run_lossgrid(scratch, "run --mode bench --case 'lens=5+8 vocab=24' --impl fused --resume " +
                                report + " --report " + scratch.file("cpu.json") + kFew);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const json again = json::parse(read_all(scratch.file("cpu.json")));
  EXPECT_EQ(again["timings"][0]["backend"], "cpu");
  EXPECT_EQ(again["timings"][0]["rows"][0]["kernel_launches"], 0);
}

TEST(Bench, WrongOutputsAreExitTen) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(
      scratch,
      "bench --case 'lens=5+8 vocab=24' --impl fused,mutant/gradient_times_2" + std::string(kFew));
  EXPECT_EQ(result.exit_code, 10) << result.out;
  EXPECT_THAT(result.out,
              HasSubstr("failed: mutant/gradient_times_2 forward: outputs of the last"));
}

TEST(Bench, NothingToTimeIsExit77) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(
      scratch, "bench --case 'lens=5+8 vocab=24 microbatches=2' --impl fused" + std::string(kFew));
  EXPECT_EQ(result.exit_code, 77) << result.out;
}

TEST(Bench, RunDoesBothWhenAsked) {
  const ScratchFolder scratch;
  const std::string arguments =
      "run --case 'lens=5+8 vocab=24' --impl fused --report " + scratch.file("r.json") + kFew;
  const auto sizes = [&](const std::string& mode) {
    EXPECT_EQ(run_lossgrid(scratch, arguments + mode).exit_code, 0) << mode;
    const json report = json::parse(read_all(scratch.file("r.json")));
    return std::pair(report["trials"].size(), report["timings"].size());
  };
  EXPECT_EQ(sizes(""), std::pair(std::size_t{1}, std::size_t{0}));
  EXPECT_EQ(sizes(" --mode verify,bench"), std::pair(std::size_t{1}, std::size_t{1}));
  EXPECT_EQ(sizes(" --mode bench"), std::pair(std::size_t{0}, std::size_t{1}));
}

TEST(Bench, TheSmokeSuiteIsTimedAloneWhenAsked) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, "run --suite perf_smoke --mode bench --max-seconds 0.01 --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(validate(scratch, report), 0);
  const json parsed = json::parse(read_all(report));
  EXPECT_TRUE(parsed["trials"].empty());
  ASSERT_EQ(parsed["timings"].size(), 12u);
  for (const json& timing : parsed["timings"]) EXPECT_TRUE(timing["skipped"].empty()) << timing;
}

TEST(Bench, ASuiteMayAskForIt) {
  const ScratchFolder scratch;
  write_all(scratch.file("s.json"),
            R"({"suite":1,"name":"x","summary":"","grids":["tp1cp1"],
                "implementations":["fused","cp_local"],"cases":[{"lens":"4","vocab":24}],
                "timing":{"baseline":"cp_local","cache":["cold"],"min_samples":2,
                          "target_stderr":1}})");
  const std::string arguments =
      "run --suite " + scratch.file("s.json") + " --report " + scratch.file("r.json");
  EXPECT_EQ(run_lossgrid(scratch, arguments).exit_code, 0);
  const json report = json::parse(read_all(scratch.file("r.json")));
  EXPECT_EQ(report["trials"].size(), 2u);
  ASSERT_EQ(report["timings"].size(), 1u);
  EXPECT_EQ(report["timings"][0]["cache"], "cold");
  EXPECT_EQ(report["timings"][0]["baseline"], "cp_local");
  EXPECT_EQ(run_lossgrid(scratch, arguments + " --mode verify").exit_code, 0);
  EXPECT_TRUE(json::parse(read_all(scratch.file("r.json")))["timings"].empty());
}

TEST(Bench, FlagsThatMakeNoSenseGetOneLine) {
  const ScratchFolder scratch;
  struct Refused {
    const char* arguments;
    int exit_code;
    const char* message;
  };
  for (const Refused& refused :
       {Refused{"bench", 64, "bench needs either --suite or --case"},
        Refused{"bench --case 'lens=4' --cache warm", 65,
                "--cache = 'warm' is neither hot nor cold"},
        Refused{"bench --case 'lens=4' --cache hot,hot", 65, "twice"},
        Refused{"bench --case 'lens=4' --min-samples 1", 64, "--min-samples"},
        Refused{"bench --case 'lens=4' --max-seconds 0", 64, "--max-seconds"},
        Refused{"bench --case 'lens=4' --target-stderr 2", 64, "--target-stderr"},
        Refused{"bench --case 'lens=4' --impl fused --baseline cp_local", 65,
                "--baseline cp_local"},
        Refused{"bench --case 'lens=4' --threads-per-rank 0", 64, "--threads-per-rank"},
        Refused{"bench --case 'lens=4' --threads-per-rank 4000", 65, "4000 threads per rank"},
        Refused{"bench --case 'lens=4' --inject rank=1,kind=hang,at=forwrd", 64, "forward"},
        Refused{"run --case 'lens=4' --mode time", 64, "--mode 'time'"},
        Refused{"run --case 'lens=4' --timing-rounds 3", 64, "--timing-rounds"}}) {
    const ProcessResult result = run_lossgrid(scratch, refused.arguments);
    EXPECT_EQ(result.exit_code, refused.exit_code) << refused.arguments << result.out;
    EXPECT_THAT(result.err, HasSubstr(refused.message)) << refused.arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace lossgrid
