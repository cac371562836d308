// SPDX-License-Identifier: Apache-2.0
// supports= that raises, ends its process or does not return: the trial has its status, and later
// trials run.
#include <map>

#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::string kUnsure = R"(
import time


def supports(problem):
    fate = {25: "raises", 26: "exits", 27: "hangs", 28: "takes it not"}.get(problem.vocab)
    if fate == "raises":
        raise KeyError("no such key")
    if fate == "exits":
        os._exit(4)
    if fate == "hangs":
        time.sleep(600)
    return fate or ""


@lossgrid.implementation(supports=supports)
def unsure(logits, batch):
    return right(logits, batch)
)";

using ExternalSupports = WithTorch;

TEST_F(ExternalSupports, FailuresAreTheStatusOfTheirTrial) {
  const std::string file = write_python("unsure.py", kUnsure);
  const std::string report = scratch_.file("supports.json");
  const auto run = [&](const std::string& vocab, const std::string& deadline, int exit_code) {
    const ProcessResult result = run_loaded(
        "run", {file},
        fmt::format("--impl unsure --case 'lens=5+8 vocab={}' --grid tp1cp1 --report {} {}", vocab,
                    report, deadline));
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return records_of(report, "trials");
  };
  const auto expect = [&](const ordered_json& trial, const char* status, const char* reason) {
    EXPECT_EQ(trial["status"], status) << trial["id"];
    EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr(reason));
  };
  const ordered_json trials = run("[24,25,26,28,29]", "", 14);
  ASSERT_EQ(trials.size(), 5u);
  expect(trials[0], "passed", "");
  expect(trials[1], "error", "supports of 'unsure': KeyError: 'no such key' (unsure.py:");
  expect(trials[2], "crashed", "-m lossgrid.worker ended with exit code 4");
  expect(trials[3], "skipped", "takes it not");
  expect(trials[4], "passed", "");
  // Later trials would have the same deadline, which is short for a busy machine.
  const ordered_json hung = run("27", "--timeout 4", 15);
  ASSERT_EQ(hung.size(), 1u);
  expect(hung[0], "timeout", "supports of 'unsure' gave no answer within 4 s");
}

TEST_F(ExternalSupports, AnExceptionEndsOneTimingOnly) {
  const std::string report = scratch_.file("bench.json");
  const ProcessResult result =
      run_loaded("bench", {write_python("unsure.py", kUnsure)},
                 "--impl unsure --case 'lens=5+8 vocab=[25,24]' --min-samples 2 "
                 "--target-stderr 1 --max-seconds 10 --report " +
                     report);
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  const ordered_json timings = records_of(report, "timings");
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0]["status"], "error");
  EXPECT_THAT(timings[0]["reason"].get<std::string>(), HasSubstr("KeyError: 'no such key'"));
  EXPECT_FALSE(timings[1]["rows"].empty());
}

}  // namespace
}  // namespace lossgrid
