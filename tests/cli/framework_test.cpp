// SPDX-License-Identifier: Apache-2.0
// Framework conventions on the command line: output and exit code of a right and a wrong stack.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr const char* kFrameworkRun =
    "run --impl fused,cp_local --case 'lens=5+8+3 vocab=40 microbatches=2 ";

TEST(Framework, TheSuiteOfRightStacksPasses) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "run --suite frameworks --quiet");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ContainsRegex("[0-9]+ passed"));
}

TEST(Framework, AStackThatDoublesTheGradientIsExitTen) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const ProcessResult result = run_lossgrid(
      scratch, kFrameworkRun + std::string("framework=nemo_rl_pp_adapter_gather_reduces' --grid ") +
                   "tp1cp1dp2,tp1cp2dp2 --report " + report);
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_THAT(result.out, HasSubstr("scale_identity: loss dp*cp x schedule 1 x gather cp x dp mean "
                                    "1/(dp*cp) = cp = 2, must be 1"));
  EXPECT_THAT(result.out, HasSubstr("2 passed, 2 failed"));
  const json written = full_report(report);
  for (const json& trial : written["trials"]) {
    const bool wrong = trial["grid"]["cp"] == 2;
    EXPECT_EQ(trial["status"], wrong ? "failed" : "passed");
    EXPECT_THAT(trial["reproduce"].get<std::string>(),
                HasSubstr("framework=nemo_rl_pp_adapter_gather_reduces"));
    for (const json& check : trial["checks"]) {
      if (check["name"] == "grad_logits_bias") {
        EXPECT_NEAR(check["error_abs"].get<double>(), wrong ? 1 : 0, 1e-5);
      }
    }
  }
}

TEST(Framework, APartThatTheUserStatesDecides) {
  const ScratchFolder scratch;
  const auto code = [&](const std::string& framework) {
    return run_lossgrid(scratch, kFrameworkRun + framework + "' --grid tp1cp2dp2 --quiet")
        .exit_code;
  };
  EXPECT_EQ(code("framework.loss=dp*n_mb framework.schedule=cp/n_mb framework.dp_reduction=mean"),
            0);
  EXPECT_EQ(code("framework.loss=dp*n_mb framework.schedule=1/n_mb framework.dp_reduction=mean"),
            10);
  EXPECT_EQ(code("framework=skyrl framework.gather=cp"), 10);
}

TEST(Framework, BadTextIsOneLine) {
  const ScratchFolder scratch;
  for (const char* bad : {"framework=skyrll", "framework.loss=dp*tp", "framework.gather=dp",
                          "framework.dp_reduction=max", "framework.counts=all"}) {
    const ProcessResult result = run_lossgrid(scratch, kFrameworkRun + std::string(bad) + "'");
    EXPECT_EQ(result.exit_code, 65) << bad;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(std::string(bad).substr(0, std::string(bad).find('='))));
  }
}

TEST(Framework, ListsEveryPresetWithItsNet) {
  const ScratchFolder scratch;
  const ProcessResult list = run_lossgrid(scratch, "list frameworks");
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, ContainsRegex("nemo_rl_megatron +net 1 +loss n_mb/\\(cp\\*cp\\) +schedule "
                                      "cp/n_mb +gather cp +dp sum "));
  EXPECT_THAT(list.out, ContainsRegex("areal_schedule_without_cp +net 1/cp "));
  EXPECT_THAT(list.out, ContainsRegex("skyrl_metrics_over_cp +net 1 .* metrics cp "));
  EXPECT_THAT(list.out,
              ContainsRegex("megatron_3_tuple +net 1/\\(dp\\*cp\\*n_mb\\) .* counts rank "));
  const ProcessResult keys = run_lossgrid(scratch, "list keys");
  EXPECT_THAT(keys.out, ContainsRegex("framework.dp_reduction +preset +of gradients over DP x CP"));
}

}  // namespace
}  // namespace lossgrid
