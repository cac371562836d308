// SPDX-License-Identifier: Apache-2.0
// A GPU that is lost in the middle of a run: the process reports and ends, and another process runs
// the rest.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/device/backend.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kThreeTrials = "run --case 'lens=5+8 vocab=[24,33,40]' --impl fused ";
constexpr const char* kInjected = "what was launched: the device is lost (injected)";

std::vector<std::string> statuses_at(const std::string& report) {
  const json parsed = full_report(report);
  std::vector<std::string> statuses;
  for (const json& trial : parsed["trials"]) {
    statuses.push_back(trial["status"]);
  }
  return statuses;
}

struct Loss {
  const char* backend;
  const char* grid;
  const char* phase;
  int rank;
  const char* why;

  friend void PrintTo(const Loss& loss, std::ostream* out) { *out << loss.grid << loss.phase; }
};

class LostDevice : public ::testing::TestWithParam<Loss> {
 protected:
  void SetUp() override {
    const std::string reason = text_of(no_device(parse_backend(GetParam().backend, "")));
    if (!reason.empty()) GTEST_SKIP() << "needs a GPU: " << reason;
  }

  std::string run_with(const std::string& flags) const {
    return fmt::format("{} --backend {} --grid {} {} --report {}", kThreeTrials, GetParam().backend,
                       GetParam().grid, flags, report_);
  }
  std::string fault() const {
    return fmt::format("--inject rank={},at={},trial=2,kind=device_lost", GetParam().rank,
                       GetParam().phase);
  }

  const ScratchFolder scratch_;
  const std::string report_ = scratch_.file("r.json");
};

TEST_P(LostDevice, EndsTheProcessWithAReportThatIsResumed) {
  // The other rank is informed; at the deadline the status would be different.
  const ProcessResult result = run_lossgrid(scratch_, run_with(fault()));
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  EXPECT_THAT(statuses_at(report_), ElementsAre("passed", "crashed", "not_run"));
  const json left = full_report(report_);
  EXPECT_EQ(left["run"]["status"], "partial");
  EXPECT_EQ(left["run"]["exit_code"], 14);
  const json& lost = left["trials"][1];
  EXPECT_EQ(lost["first_failed_rank"], GetParam().rank);
  const std::string reason = lost["reason"];
  EXPECT_THAT(reason, HasSubstr(fmt::format("rank {} in {}", GetParam().rank, GetParam().phase)));
  EXPECT_THAT(reason, HasSubstr(GetParam().why));
  EXPECT_EQ(lost["rank_states"][static_cast<std::size_t>(GetParam().rank)]["state"], "threw");
  EXPECT_EQ(left["trials"][2]["reason"], "a rank of an earlier trial has lost its GPU");

  const ProcessResult resumed = run_lossgrid(scratch_, run_with("--resume " + report_));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_THAT(statuses_at(report_), ElementsAre("passed", "passed", "passed"));
  EXPECT_EQ(json(full_report(report_))["trials"][0]["times"], left["trials"][0]["times"]);
}

TEST_P(LostDevice, CostsASupervisedRunOneTrial) {
  const ProcessResult result = run_lossgrid(scratch_, run_with("--supervise " + fault()));
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("launch 1: 2 of 3 done\nlaunch 2: 3 of 3 done\n"));
  EXPECT_THAT(statuses_at(report_), ElementsAre("passed", "crashed", "passed"));
  const json whole = full_report(report_);
  EXPECT_EQ(whole["run"]["status"], "complete");
  EXPECT_THAT(std::string(whole["trials"][1]["reason"]), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(Phases, LostDevice,
                         ::testing::Values(Loss{"cuda_emulated", "tp1cp1", "setup", 0, kInjected},
                                           Loss{"cuda_emulated", "tp2cp1", "forward", 1, kInjected},
                                           Loss{"cuda_emulated", "tp2cp2", "check", 2, kInjected},
                                           Loss{"cuda", "tp1cp1", "backward", 0, "cudaError"}),
                         [](const auto& of) {
                           return fmt::format("{}_{}_{}", of.param.backend, of.param.grid,
                                              of.param.phase);
                         });

TEST(LostDevices, TheProcessorCannotBeLost) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_lossgrid(scratch, std::string(kThreeTrials) + "--inject rank=0,at=plan,kind=device_lost");
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_EQ(result.err,
            "lossgrid: --inject kind=device_lost: the processor cannot be lost; it needs --backend "
            "cuda_emulated or cuda\n");
}

}  // namespace
}  // namespace lossgrid
