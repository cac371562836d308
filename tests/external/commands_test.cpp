// SPDX-License-Identifier: Apache-2.0
// Commands other than run that take loaded implementations: plan, export and replay, hunt, bench,
// ab; and options of a function.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string kMine = R"(
@lossgrid.implementation
def mine(logits, batch, *, chunk=2):
    """Prints its option."""
    if chunk == 7:
        raise ValueError(f"chunk is {chunk!r}")
    return right(logits, batch)
)";

using ExternalCommands = WithTorch;

TEST_F(ExternalCommands, ReplayTakesLoadedImplementationsAndItsReproductionLineRuns) {
  const std::string bundle = scratch_.file("batch.safetensors");
  ASSERT_EQ(
      run_lossgrid(scratch_, "export --case 'lens=5+8+0+1 vocab=24' --out " + bundle).exit_code, 0);
  const std::string report = scratch_.file("replay.json");
  const std::string twin = kExamples + "wrong/max_not_reduced.py";
  const ProcessResult result =
      run_loaded("replay " + bundle, {kExamples + "vocab_parallel.py", twin},
                 "--impl vocab_parallel,max_not_reduced --tp 2 --report " + report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  const ordered_json trials = records_of(report, "trials");
  EXPECT_EQ(trials[0]["status"], "passed") << trials[0]["reason"];
  ASSERT_EQ(trials[1]["status"], "failed");
  const std::string line = trials[1]["reproduce"];
  ASSERT_THAT(line, AllOf(HasSubstr("lossgrid replay "), HasSubstr(" --load " + twin)));
  const ProcessResult again = run_lossgrid(scratch_, line.substr(std::string("lossgrid ").size()));
  EXPECT_EQ(again.exit_code, 10) << again.out << again.err;
}

TEST_F(ExternalCommands, PlanHasALineForThem) {
  const ProcessResult result =
      run_loaded("plan", {kExamples + "vocab_parallel.py"},
                 "--impl vocab_parallel,fused --case 'lens=5+8 vocab=24' --grid tp2cp1");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("fused"),
                                ContainsRegex("vocab_parallel.*measured when it runs and not")));
}

// Two of three cases that are drawn for built-in implementations have settings it does not take.
TEST_F(ExternalCommands, HuntDrawsWhatTheyTake) {
  const ProcessResult result = run_loaded("hunt --quiet", {kExamples + "vocab_parallel.py"},
                                          "--impl vocab_parallel --seed 1 --cases 8 --max-ranks 4");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ContainsRegex(" [1-9][0-9]* passed, 0 failed, 0 skipped\n"));
}

// A skipped pair needs one launch, a judged pair twelve.
TEST_F(ExternalCommands, AbLoadsThemInEveryLaunch) {
  const std::string file = write_python("mine.py", R"(
@lossgrid.implementation(supports=lambda problem: "not today")
def mine(logits, batch):
    return right(logits, batch)
)");
  const ProcessResult result = run_loaded(
      "ab", {file}, "--impl mine --impl fused --case 'lens=5+8 vocab=24' --grid tp2cp1 --quiet");
  EXPECT_EQ(result.exit_code, 77) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("mine: not today"));
}

TEST_F(ExternalCommands, OptionsAreTypedAsTheirDefaults) {
  const std::string mine = write_python("mine.py", kMine);
  const std::string arguments = "--case 'lens=5+8 vocab=24' --grid tp1cp1 --impl ";
  const ProcessResult seven = run_loaded("run", {mine}, arguments + "mine:chunk=7,mine:chunk=3");
  EXPECT_EQ(seven.exit_code, 14) << seven.out;
  EXPECT_THAT(seven.out, AllOf(HasSubstr("ValueError: chunk is 7"), HasSubstr("1 passed")));
  const ProcessResult text = run_loaded("run", {mine}, arguments + "mine:chunk=three");
  EXPECT_EQ(text.exit_code, 65);
  EXPECT_THAT(text.err, HasSubstr("option chunk = three is no int"));
  const ProcessResult unknown = run_loaded("run", {mine}, arguments + "mine:chunks=3");
  EXPECT_EQ(unknown.exit_code, 65);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("chunks"), HasSubstr("chunk"), HasSubstr("mine")));
}

TEST_F(ExternalCommands, BenchHasThemInTheTableOfBuiltInOnes) {
  const ProcessResult result = run_loaded(
      "bench", {kExamples + "vocab_parallel.py"},
      "--impl vocab_parallel,fused --case 'lens=64+64 vocab=512' --grid tp2cp1 --min-samples 2 "
      "--target-stderr 1 --max-seconds 20");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* phase : {"fwd", "bwd", "both"}) {
    for (const char* name : {"vocab_parallel", "fused"}) {
      EXPECT_THAT(result.out, ContainsRegex(fmt::format("\n  {} +{} +[0-9.]+ ", name, phase)));
    }
  }
  // Collectives of a worker are not counted during a timing.
  EXPECT_THAT(result.out, ContainsRegex("\n  vocab_parallel +both .* -\n"));
  // The baseline is the built-in implementation, although another was named first.
  EXPECT_THAT(result.out, ContainsRegex("\n  fused +both .* 1\\.00x +[0-9]+%\n"));
}

}  // namespace
}  // namespace lossgrid
