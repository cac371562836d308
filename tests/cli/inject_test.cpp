// SPDX-License-Identifier: Apache-2.0
// --inject of every command that has it: a fault that never fires is refused at the end, a fault
// that fires is not. Timings that end by a fault have the same status as a trial would have.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kNeverFired =
    "the fault never fired: no rank came to that trial, phase or collective\n";
constexpr const char* kInjectRun =
    "run --case 'lens=5+8 vocab=[24,33]' --impl fused --grid tp2cp1 --quiet ";
constexpr const char* kInjectBench =
    "bench --case 'lens=5+8 vocab=24' --impl fused,cp_local --grid tp2cp1 --min-samples 2 "
    "--target-stderr 1 --quiet ";
constexpr const char* kInjectReplay =
    "replay tests/golden/nll_basic.safetensors --impl fused,cp_local --tp 2 ";

TEST(InjectedFault, EndsWithSixtyFourIfItNeverFired) {
  const ScratchFolder scratch;
  for (const char* command : {kInjectRun, kInjectBench, kInjectReplay}) {
    for (const char* fault : {"rank=2,kind=throw,at=forward", "rank=1,kind=kill,at=plan,trial=3",
                              "rank=0,kind=oom,call=1000000", "rank=7,kind=nan,at=backward"}) {
      const ProcessResult result =
          run_lossgrid(scratch, fmt::format("{} --inject {}", command, fault));
      EXPECT_EQ(result.exit_code, 64) << command << fault;
      EXPECT_THAT(result.err,
                  HasSubstr(fmt::format("lossgrid: --inject {}: {}", fault, kNeverFired)));
    }
  }
}

TEST(InjectedFault, HasTheExitCodeOfItsEffectIfItFired) {
  const ScratchFolder scratch;
  for (const char* command : {kInjectRun, kInjectBench, kInjectReplay}) {
    for (const auto& [fault, code] : {std::pair{"rank=1,kind=throw,at=setup", 14},
                                      {"rank=1,kind=throw,at=check", 14},
                                      {"rank=1,kind=oom,at=plan", 14},
                                      {"rank=0,kind=throw,call=1", 14},
                                      {"rank=1,kind=nan,at=forward", 10},
                                      {"rank=1,kind=nan,at=backward", 10},
                                      {"rank=1,kind=leave,at=backward", 14},
                                      {"rank=1,kind=exit,at=forward", 3}}) {
      const ProcessResult result =
          run_lossgrid(scratch, fmt::format("{} --inject {}", command, fault));
      EXPECT_EQ(result.exit_code, code) << command << fault << result.out << result.err;
      EXPECT_THAT(result.err, Not(HasSubstr("never fired")));
    }
  }
}

TEST(InjectedFault, SetsTheExitCodeOfTheReportIfItNeverFired) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string line =
      fmt::format("{} --inject rank=5,kind=throw --report {}", kInjectRun, report);
  EXPECT_EQ(run_lossgrid(scratch, line).exit_code, 64);
  const json parsed = json::parse(read_all(report));
  EXPECT_EQ(parsed["run"]["exit_code"], 64);
  EXPECT_EQ(parsed["trials"][1]["status"], "passed");
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

TEST(InjectedFault, CountsTrialsBeforeTimings) {
  const ScratchFolder scratch;
  const std::string both = std::string(kInjectRun) +
                           "--mode verify,bench --min-samples 2 --target-stderr 1 --report " +
                           scratch.file("r.json");
  const ProcessResult fired =
      run_lossgrid(scratch, both + " --inject rank=0,kind=throw,at=forward,trial=4");
  EXPECT_EQ(fired.exit_code, 14) << fired.out << fired.err;
  const json parsed = json::parse(read_all(scratch.file("r.json")));
  EXPECT_EQ(parsed["trials"][1]["status"], "passed");
  EXPECT_NE(parsed["timings"][0]["status"], "error");
  EXPECT_EQ(parsed["timings"][1]["status"], "error");
  EXPECT_EQ(
      run_lossgrid(scratch, both + " --inject rank=0,kind=throw,at=forward,trial=5").exit_code, 64);
}

TEST(InjectedFault, MayFireInAnyLaunchOfASupervisedRun) {
  const ScratchFolder scratch;
  const std::string supervised =
      "run --case 'lens=5+8 vocab=24' --impl fused --grid "
      "tp1cp1,tp2cp1 --supervise --launches grid --quiet --report " +
      scratch.file("r.json") + " --inject ";
  // The first launch has no rank 1; the fault kills a launch and does not kill the next launch.
  for (const auto& [fault, code] : {std::pair{"rank=1,kind=throw,at=forward", 14},
                                    {"rank=1,kind=kill,at=forward,trial=1", 14},
                                    {"rank=1,kind=nan,at=backward", 10}}) {
    const ProcessResult result = run_lossgrid(scratch, supervised + fault);
    EXPECT_EQ(result.exit_code, code) << fault << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("never fired"))) << fault;
  }
  const ProcessResult missed = run_lossgrid(scratch, supervised + "rank=2,kind=kill,at=forward");
  EXPECT_EQ(missed.exit_code, 64);
  EXPECT_EQ(missed.err,
            std::string("lossgrid: --inject rank=2,kind=kill,at=forward: ") + kNeverFired);
  EXPECT_EQ(json::parse(read_all(scratch.file("r.json")))["run"]["exit_code"], 64);
}

/// Returns the status of a timing with a fault, and the exit code of the process.
std::pair<std::string, int> timing_with(const std::string& fault, const std::string& flags = "") {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, fmt::format("{} {} --inject {} --report {}", kInjectBench, flags, fault, report));
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
  const json timing = json::parse(read_all(report))["timings"][0];
  EXPECT_THAT(timing["reason"].get<std::string>(), HasSubstr("rank 1: "));
  return {timing["status"], result.exit_code};
}

TEST(TimingThatEnds, HasTheStatusThatATrialHas) {
  using Ended = std::pair<std::string, int>;
  EXPECT_EQ(timing_with("rank=1,kind=throw,at=forward"), Ended("error", 14));
  EXPECT_EQ(timing_with("rank=1,kind=oom,at=plan"), Ended("out_of_memory", 14));
  EXPECT_EQ(timing_with("rank=1,kind=device_lost,at=backward", "--backend cuda_emulated"),
            Ended("crashed", 14));
  EXPECT_EQ(timing_with("rank=1,kind=hang,at=forward", "--timeout 0.1 --max-seconds 0.1"),
            Ended("timeout", 15));
}

}  // namespace
}  // namespace lossgrid
