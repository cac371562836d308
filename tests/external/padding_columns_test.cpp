// SPDX-License-Identifier: Apache-2.0
// Functions that need padded packs: the harness pads their inputs for every case, bundle and grid,
// and rejects a function that writes to padding.
#include <gmock/gmock.h>

#include "python.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kRows16 = R"(
def require_rows16(batch):
    rows = batch.cu_seqlens_padded.diff().tolist()
    if any(count % 16 for count in rows):
        raise ValueError(f"sequences of {rows} rows")


@lossgrid.implementation(sequence_multiple=16, pack_multiple=48,
                         cost=lambda problem: lossgrid.Cost())  # plan knows its rows alone
def rows16(logits, batch):
    require_rows16(batch)
    if batch.cu_seqlens_padded[-1] % 48:
        raise ValueError(f"a pack of {batch.cu_seqlens_padded[-1]} rows")
    return right(logits, batch)


@lossgrid.implementation
def undeclared(logits, batch):
    require_rows16(batch)
    return right(logits, batch)


class WrongInPadding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, padding):
        ctx.padding = padding
        return logits.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient + ctx.padding[:, None].to(gradient.dtype), None


@lossgrid.implementation(sequence_multiple=16)
def wrong_in_padding(logits, batch):
    place = batch.positions - batch.cu_seqlens_padded[batch.sequence]
    return right(WrongInPadding.apply(logits, place >= batch.lengths[batch.sequence]), batch)
)";

class ExternalPadding : public WithTorch {
 protected:
  std::string file() const { return write_python("rows16.py", kRows16); }
  std::string report() const { return scratch_.file("report.json"); }
};

TEST_F(ExternalPadding, IsMadeForCasesOnEveryGrid) {
  const ProcessResult result =
      run_loaded("run", {file()},
                 "--impl rows16 --grid tp1cp1,tp2cp2,tp1cp2,tp1cp2dp2pp2 "
                 "--case 'lens=5+8+0+1+3 vocab=24' "
                 "--case 'lens=5+8+1+19 vocab=24 cu=padded microbatches=2 pad_multiple=6 "
                 "objective=clipped_pg' --report " +
                     report());
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const ordered_json trials = records_of(report(), "trials");
  ASSERT_EQ(trials.size(), 8u);
  for (const ordered_json& trial : trials) {
    EXPECT_EQ(trial["status"], "passed") << trial["id"] << trial["reason"];
    EXPECT_EQ(trial["details"]["padding"],
              "sequences to multiples of 16 and packs to multiples of 48");
  }
  EXPECT_EQ(trials[0]["id"], "lens=5+8+0+1+3 vocab=24|tp1cp1|rows16|cpu");
  EXPECT_EQ(trials[0]["batch"]["padded_tokens"], 96);
}

TEST_F(ExternalPadding, IsNotMadeWithoutADeclaration) {
  const ProcessResult result = run_loaded(
      "run", {file()},
      "--impl undeclared,wrong_in_padding --grid tp1cp1,tp1cp2 --case 'lens=5+8 vocab=24' "
      "--report " +
          report());
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  const ordered_json trials = records_of(report(), "trials");
  ASSERT_EQ(trials.size(), 4u);
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(trials[k]["status"], "error");
    EXPECT_THAT(
        trials[k]["reason"].get<std::string>(),
        HasSubstr(fmt::format("ValueError: sequences of {} rows", k == 0 ? "[5, 8]" : "[8, 8]")));
    EXPECT_EQ(trials[2 + k]["status"], "failed");
    EXPECT_THAT(trials[2 + k]["reason"].get<std::string>(), HasSubstr("masked_rows_zero: "));
  }
}

TEST_F(ExternalPadding, IsMadeForBundlesAndTheReproductionLineRuns) {
  const ProcessResult result = run_loaded(
      "replay " LOSSGRID_SOURCE_DIR "/tests/golden/nll_empty_and_single.safetensors", {file()},
      "--impl rows16,wrong_in_padding,fused --grid tp1cp1,tp1cp2 --report " + report());
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  const ordered_json trials = records_of(report(), "trials");
  ASSERT_EQ(trials.size(), 6u);
  for (const ordered_json& trial : trials) {
    const bool wrong = trial["implementation"] == "wrong_in_padding";
    EXPECT_EQ(trial["status"], wrong ? "failed" : "passed") << trial["id"] << trial["reason"];
    EXPECT_EQ(trial["details"].contains("padding"), trial["implementation"] != "fused");
    if (!wrong) continue;
    const std::string line = trial["reproduce"];
    const ProcessResult again =
        run_lossgrid(scratch_, line.substr(std::string("lossgrid ").size()));
    EXPECT_EQ(again.exit_code, 10) << again.out << again.err;
  }
}

TEST_F(ExternalPadding, IsThatOfAllRowsOfATimingAndOfPlans) {
  const std::string place = "--impl fused,rows16 --case 'lens=5+8 vocab=24' --grid tp1cp2 ";
  const ProcessResult bench =
      run_loaded("bench", {file()},
                 place + "--min-samples 2 --target-stderr 1 --max-seconds 20 --report " + report());
  EXPECT_EQ(bench.exit_code, 0) << bench.out << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("\n  padded: sequences to multiples of 16 and packs to "
                                   "multiples of 48, for rows16\n"));
  EXPECT_EQ(records_of(report(), "timings")[0]["rows"].size(), 6u);
  const std::string plans = scratch_.file("plans.json");
  const ProcessResult plan = run_loaded("plan", {file()}, place + "--json " + plans);
  EXPECT_EQ(plan.exit_code, 0) << plan.out << plan.err;
  const ordered_json rows = ordered_json::parse(read_all(plans))["plans"][0]["rows"];
  EXPECT_EQ(rows[0]["padded_tokens"], 16);
  EXPECT_EQ(rows[1]["padded_tokens"], 48);
}

TEST_F(ExternalPadding, IsMadeForMutants) {
  write_all(scratch_.file("suite.json"), R"({"suite": 1, "name": "odd", "summary": "one case",
    "grids": ["tp2cp1", "tp2cp2"], "implementations": ["fused"],
    "cases": [{"name": "a", "lens": "5+8+1+3", "vocab": 24, "scale": 3},
              {"name": "b", "lens": "5+8", "vocab": 27, "values": "overflow"}]})");
  const ProcessResult result = run_loaded(
      "mutants", {file()}, fmt::format("--suite {} --impl rows16", scratch_.file("suite.json")));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("mutants rejected (100 %)"));
}

}  // namespace
}  // namespace lossgrid
