// SPDX-License-Identifier: Apache-2.0
// The examples of impls/plugins pass on all shapes of grids, here and in worker processes, with the
// same bits; what they need is measured.
#include "plugins.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;

class PluginExamples : public PluginsInBothPlaces {};

TEST_P(PluginExamples, PassFromLogits) {
  // 25 ids on two ranks: the last one has a column of padding. 5 ids on four: one rank has none.
  const std::string arguments =
      "--case 'lens=5+8+1 vocab=[25,5] dtype=[f32,bf16]' --case 'lens=5+8 vocab=40 "
      "objective=clipped_pg' --grid tp1cp1,tp2cp2,tp4cp1,tp2cp1dp2,tp1cp2pp2";
  run("vocab_parallel", GetParam(), "c_vocab_parallel", arguments, 0);
  EXPECT_THAT(result_.out, ::testing::HasSubstr("25 passed"));
}

TEST_P(PluginExamples, PassFromHiddenStates) {
  const std::string arguments =
      "--case 'lens=5+8 vocab=25 hidden=6 weight_layout=[vocab_hidden,hidden_vocab]' "
      "--grid tp1cp1,tp2cp2,tp2cp1dp2";
  run("hidden_nll", GetParam(), "cpp_hidden_nll", arguments, 0);
  EXPECT_THAT(result_.out, ::testing::HasSubstr("18 passed"));  // with the blocks that it offers
}

TEST_P(PluginExamples, PassUnderOtherConventions) {
  run("conventions", GetParam(), "c_entropy,c_mean_nll",
      "--case 'lens=5+8+1 vocab=25' --case 'lens=5+8 vocab=25 microbatches=2' --case 'lens=5+8 "
      "vocab=25 objective=clipped_pg' --grid tp1cp1,tp2cp2,tp2cp1dp2",
      0);
  EXPECT_THAT(result_.out, ::testing::HasSubstr("15 passed, 3 skipped"));
}

TEST_P(PluginExamples, PassWithTheScaleOfAFramework) {
  run("conventions", GetParam(), "c_framework_nll",
      "--case 'lens=5+8+1 vocab=25 microbatches=2 dtype=[f32,bf16]' "
      "--grid tp1cp1,tp2cp2,tp1cp4dp2",
      0);
  EXPECT_THAT(result_.out, ::testing::HasSubstr("6 passed"));
}

TEST_P(PluginExamples, RefusalsAreSkipped) {
  auto trials = run("vocab_parallel", GetParam(), "c_vocab_parallel",
                    "--case 'lens=3 vocab=8 dtype=f64'", 77);
  EXPECT_EQ(trials["c_vocab_parallel"].at("status"), "skipped");
  EXPECT_EQ(reason_of(trials["c_vocab_parallel"]), "float64 is not written");
}

TEST_P(PluginExamples, CallsAndMemoryAreMeasured) {
  auto trials = run("vocab_parallel", GetParam(), "c_vocab_parallel",
                    "--case 'lens=8 vocab=24' --grid tp2cp2", 0);
  const ordered_json& trial = trials["c_vocab_parallel"];
  ASSERT_EQ(trial.at("communication").size(), 1u) << trial;
  const ordered_json& calls = trial.at("communication")[0];
  EXPECT_EQ(calls.at("group"), "tp");
  EXPECT_EQ(calls.at("operation"), "all_reduce");
  EXPECT_EQ(calls.at("measured_calls"), 2);
  EXPECT_EQ(calls.at("measured_payload_bytes"), 3 * 8 * 4);  // three doubles of four own rows
  EXPECT_EQ(calls.at("predicted_payload_bytes"), 3 * 8 * 4);
}

TEST_P(PluginExamples, OneTrialIsTimed) {
  const char* isolate = GetParam() == Place::isolated ? " --isolate" : "";
  const ProcessResult result = run_lossgrid(
      scratch_,
      fmt::format("bench --load '{}'{} --impl c_vocab_parallel,cp_local --case 'lens=8 vocab=32' "
                  "--grid tp2cp1 --min-samples 2 --max-seconds 1 --quiet",
                  plugin_file("vocab_parallel"), isolate));
  EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 13) << result.out << result.err;
  EXPECT_THAT(result.out, ::testing::HasSubstr("timings: 1 timed"));
}

INSTANTIATE_TEST_SUITE_P(Places, PluginExamples,
                         ::testing::Values(Place::in_process, Place::isolated), name_of_place);

TEST_F(Plugins, HaveTheSameBitsInBothPlaces) {
  const std::string arguments = "--case 'lens=5+8 vocab=25' --grid tp2cp2";
  const auto here = run("vocab_parallel", Place::in_process, "c_vocab_parallel", arguments, 0);
  const auto there = run("vocab_parallel", Place::isolated, "c_vocab_parallel", arguments, 0);
  EXPECT_EQ(here.at("c_vocab_parallel").at("fingerprints"),
            there.at("c_vocab_parallel").at("fingerprints"));
}

TEST_F(Plugins, HaveMutantsThatAreRejected) {
  // The sum of the ranks' maxima serves as well as their maximum until it overflows: suite ci has
  // such cases, smoke has none.
  for (const char* place : {"", " --isolate"}) {
    const ProcessResult result = run_lossgrid(
        scratch_, fmt::format("mutants --load '{}'{} --impl c_vocab_parallel --suite smoke",
                              plugin_file("vocab_parallel"), place));
    EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
    EXPECT_THAT(result.out,
                ::testing::ContainsRegex("c_vocab_parallel/forward-1-wrong_op +SURVIVED"));
    EXPECT_THAT(result.out, ::testing::HasSubstr("13 of 14 mutants rejected"));
  }
}

TEST_F(Plugins, ReplayBundlesWithColumnsOfPadding) {
  // Rows that are not trained on have values in a bundle, beside the poison of the last column.
  const std::string bundle = scratch_.file("bundle");
  ASSERT_EQ(run_lossgrid(scratch_, "export --case 'lens=5+8 vocab=25' --out " + bundle).exit_code,
            0);
  const ProcessResult result = run_lossgrid(
      scratch_, fmt::format("replay '{}' --load '{}' --impl c_vocab_parallel --grid tp2cp1,tp2cp2",
                            bundle, plugin_file("vocab_parallel")));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST_F(Plugins, RunOnTheMemoryOfTheEmulation) {
  run("vocab_parallel", Place::in_process, "c_vocab_parallel",
      "--case 'lens=5+8 vocab=25' --grid tp2cp2 --backend cuda_emulated", 0);
}

}  // namespace
}  // namespace lossgrid
