// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/problem/bundle/safetensors.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json replayed_trials(const std::string& report) {
  return full_report(report)["trials"];
}

TEST(Replay, GoldenBundlesPassForEveryImplementation) {
  const ScratchFolder scratch;
  for (const std::string bundle :
       {"nll_basic", "nll_bf16_vocab_edges", "nll_empty_and_single", "nll_odd_vocab_offset"}) {
    const ProcessResult result =
        run_lossgrid(scratch, "replay tests/golden/" + bundle +
                                  ".safetensors --tp 2 --cp 2 --report " + scratch.file("r.json"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const json trials = replayed_trials(scratch.file("r.json"));
    ASSERT_EQ(trials.size(), 6u);
    for (const json& trial : trials) {
      EXPECT_EQ(trial["status"], "passed") << trial["reason"];
      EXPECT_THAT(trial["checks"].dump(), HasSubstr("expected.grad_logits"));
      EXPECT_THAT(trial["checks"].dump(), HasSubstr("expected.metric.num_unmasked_tokens"));
    }
  }
}

TEST(Replay, AMutantFailsOnAGoldenBundle) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(
      scratch,
      "replay tests/golden/nll_basic.safetensors --impl mutant/gradient_times_1.004 --tp 2");
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_THAT(result.out, HasSubstr("expected.grad_logits"));
}

TEST(Replay, ObjectivesOfBundlesOnEveryAxis) {
  const ScratchFolder scratch;
  for (const std::string bundle : {"grpo_default", "grpo_dual_clip_k2", "grpo_tis", "cispo", "gspo",
                                   "dpo_sum", "dpo_sft_linear", "nll_linear"}) {
    const ProcessResult result =
        run_lossgrid(scratch, "replay tests/golden/" + bundle +
                                  ".safetensors --tp 2 --cp 2 --dp 2 --pp 2 --microbatches 2 "
                                  "--report " +
                                  scratch.file("r.json"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    for (const json& trial : replayed_trials(scratch.file("r.json"))) {
      EXPECT_EQ(trial["grid"]["dp"], 2);
      EXPECT_EQ(trial["grid"]["pp"], 2);
      EXPECT_THAT(trial["id"].get<std::string>(),
                  HasSubstr(bundle + ".safetensors microbatches=2|tp2cp2dp2pp2|"));
      EXPECT_THAT(trial["reproduce"].get<std::string>(),
                  HasSubstr("--grid tp2cp2dp2pp2 --microbatches 2"));
      if (trial["status"] == "skipped") {  // it would need sums over a sequence
        EXPECT_EQ(trial["implementation"], "one_sweep");
        continue;
      }
      const bool linear = bundle.find("linear") != std::string::npos;
      EXPECT_THAT(trial["checks"].dump(),
                  HasSubstr(linear ? "expected.grad_weight" : "expected.grad_logits"));
    }
  }
}

TEST(Replay, SequenceRatiosGatherNothingPerTokenOverCp) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(
      scratch, "replay tests/golden/gspo.safetensors --impl cp_local --tp 2 --cp 4 --report " +
                   scratch.file("r.json"));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const json trials = replayed_trials(scratch.file("r.json"));
  std::int64_t calls = 0;
  for (const json& row : trials[0]["communication"]) {
    if (row["group"] != "cp") continue;
    EXPECT_EQ(row["operation"], "all_reduce");
    calls += row["measured_calls"].get<std::int64_t>();
  }
  EXPECT_EQ(calls, 3);  // sums of sequences, totals, extrema
}

TEST(Replay, NamesTheInputThatABundleLacks) {
  const ScratchFolder scratch;
  const std::string bundle = scratch.file("b.safetensors");
  ASSERT_EQ(run_lossgrid(scratch, "export --case 'lens=5+8 vocab=40' --out " + bundle).exit_code,
            0);
  // The same batch for an objective that needs inputs missing in the file.
  std::string text = read_all(bundle);
  const std::string from =
      "{\\\"kind\\\":\\\"nll\\\",\\\"label_smoothing\\\":0.0,\\\"loss_type\\\":\\\"nll\\\","
      "\\\"token_level_loss\\\":true,\\\"z_loss_coefficient\\\":0.0}";
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  std::string to = "{\\\"kind\\\":\\\"dpo\\\"}";
  to.resize(from.size(), ' ');
  text.replace(at, from.size(), to);
  write_all(bundle, text);
  const ProcessResult result = run_lossgrid(scratch, "replay " + bundle);
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("reference_policy_logprobs"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
}

TEST(Replay, HiddenStatesGoToWhatStartsFromThem) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_lossgrid(scratch, "replay tests/golden/dpo_sft_linear.safetensors --tp 4 --sp --report " +
                                scratch.file("r.json"));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  std::vector<std::string> implementations;
  for (const json& trial : replayed_trials(scratch.file("r.json"))) {
    implementations.push_back(trial["implementation"]);
    EXPECT_EQ(trial["grid"]["sp"], true);
    EXPECT_THAT(trial["id"].get<std::string>(), HasSubstr("|tp4cp1sp|"));
    EXPECT_THAT(trial["reproduce"].get<std::string>(), HasSubstr("--grid tp4cp1sp"));
  }
  EXPECT_EQ(implementations,
            (std::vector<std::string>{"reference", "linear_ce", "linear_ce_onepass",
                                      "linear_materialized"}));
  const ProcessResult skipped =
      run_lossgrid(scratch, "replay tests/golden/dpo_sft_linear.safetensors --impl fused");
  EXPECT_EQ(skipped.exit_code, 77);
  EXPECT_THAT(skipped.out, HasSubstr("takes logits; the case starts from hidden states (fused)"));
}

TEST(Replay, ResultsOfHiddenStatesAreTheirGradients) {
  const ScratchFolder scratch;
  const std::string out = scratch.file("out.safetensors");
  const ProcessResult result = run_lossgrid(
      scratch,
      "replay tests/golden/nll_linear.safetensors --impl linear_ce --tp 2 --cp 2 --sp --out " +
          out);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const SafetensorsFile got = SafetensorsFile::read(out);
  EXPECT_EQ(got.tensor("grad_hidden").shape, (std::vector<std::int64_t>{37, 24}));
  EXPECT_EQ(got.tensor("grad_weight").shape, (std::vector<std::int64_t>{80, 24}));
  EXPECT_FALSE(got.has("grad_logits"));
}

TEST(Replay, WritesResultsInTheUnshardedLayout) {
  const ScratchFolder scratch;
  const std::string out = scratch.file("out.safetensors");
  const std::string bundle = LOSSGRID_SOURCE_DIR "/tests/golden/nll_odd_vocab_offset.safetensors";
  const ProcessResult result =
      run_lossgrid(scratch, "replay " + bundle + " --impl cp_local --tp 4 --cp 2 --out " + out);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const SafetensorsFile got = SafetensorsFile::read(out);
  const SafetensorsFile want = SafetensorsFile::read(bundle);
  for (const std::string name : {"loss", "logprobs", "grad_logits"}) {
    const TensorView a = got.tensor(name);
    const TensorView b = want.tensor("expected." + name);
    ASSERT_EQ(a.dtype, "F64");
    ASSERT_EQ(a.shape, b.shape);
    double largest = 0;
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      double x;
      double y;
      std::memcpy(&x, a.data.data() + 8 * i, 8);
      std::memcpy(&y, b.data.data() + 8 * i, 8);
      largest = std::max(largest, std::abs(x - y));
    }
    EXPECT_LT(largest, 1e-3) << name;  // offset 300: float32 log-probabilities
  }
  EXPECT_EQ(json::parse(got.metadata().at("metrics"))["num_unmasked_tokens"], 21);
}

TEST(Export, ReplaysToTheSameBits) {
  const ScratchFolder scratch;
  const std::string bundle = scratch.file("b.safetensors");
  for (const std::string more :
       {"dtype=f32", "dtype=bf16", "dtype=f64", "objective=clipped_pg", "objective=dpo"}) {
    const std::string mask = more == "objective=dpo" ? "1100 " : "1011 ";
    const std::string text = "'lens=5+8+1+3 vocab=40 mask=ragged sample_mask=" + mask + more + "'";
    ASSERT_EQ(
        run_lossgrid(scratch, "export --case " + text + " --expected --out " + bundle).exit_code,
        0);
    ASSERT_EQ(run_lossgrid(scratch, "run --grid tp2cp2 --case " + text + " --report " +
                                        scratch.file("run.json"))
                  .exit_code,
              0);
    const ProcessResult replayed = run_lossgrid(
        scratch, "replay " + bundle + " --tp 2 --cp 2 --report " + scratch.file("replay.json"));
    ASSERT_EQ(replayed.exit_code, 0) << replayed.out << replayed.err;
    const json run = replayed_trials(scratch.file("run.json"));
    const json replay = replayed_trials(scratch.file("replay.json"));
    ASSERT_EQ(run.size(), replay.size());
    for (std::size_t i = 0; i < run.size(); ++i) {
      EXPECT_EQ(run[i]["fingerprints"], replay[i]["fingerprints"]) << run[i]["implementation"];
    }
  }
}

}  // namespace
}  // namespace lossgrid
