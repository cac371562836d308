// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/problem/safetensors.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json trials_of(const std::string& report) {
  return json::parse(read_all(report))["trials"];
}

TEST(Replay, GoldenBundlesPassForEveryImplementation) {
  const ScratchFolder scratch;
  for (const std::string bundle :
       {"nll_basic", "nll_bf16_vocab_edges", "nll_empty_and_single", "nll_odd_vocab_offset"}) {
    const ProcessResult result =
        run_lossgrid(scratch, "replay tests/golden/" + bundle +
                                  ".safetensors --tp 2 --cp 2 --report " + scratch.file("r.json"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const json trials = trials_of(scratch.file("r.json"));
    ASSERT_EQ(trials.size(), 5u);
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

TEST(Replay, HiddenStatesAreSkippedWithTheReason) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "replay tests/golden/nll_linear.safetensors");
  EXPECT_EQ(result.exit_code, 77);
  EXPECT_THAT(result.out, HasSubstr("hidden states"));
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
    const TensorView& a = got.tensor(name);
    const TensorView& b = want.tensor("expected." + name);
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
  for (const std::string dtype : {"f32", "bf16", "f64"}) {
    const std::string text =
        "'lens=5+8+1+3 vocab=40 mask=ragged sample_mask=1011 dtype=" + dtype + "'";
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
    const json run = trials_of(scratch.file("run.json"));
    const json replay = trials_of(scratch.file("replay.json"));
    ASSERT_EQ(run.size(), replay.size());
    for (std::size_t i = 0; i < run.size(); ++i) {
      EXPECT_EQ(run[i]["fingerprints"], replay[i]["fingerprints"]) << run[i]["implementation"];
    }
  }
}

}  // namespace
}  // namespace lossgrid
