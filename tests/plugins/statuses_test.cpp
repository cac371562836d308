// SPDX-License-Identifier: Apache-2.0
// Wrong twins of an example: each fault has its status, its reason and its exit code, in this
// process and in worker processes, and the trial behind it runs.
#include "harness/core/process/sanitizers.h"
#include "plugins.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kCase = "--case 'lens=5+8 vocab=25' --grid tp2cp1 ";

class PluginStatuses : public PluginsInBothPlaces {
 protected:
  /// Expects that the only failed invariant of a twin is `invariant`.
  void expect_invariant(const ordered_json& trial, const std::string& invariant,
                        const std::string& reason) {
    EXPECT_EQ(trial.at("status"), "failed") << trial;
    const std::map<std::string, std::string> failed = failed_invariants(trial);
    ASSERT_EQ(failed.size(), 1u) << trial;
    EXPECT_EQ(failed.begin()->first, invariant);
    EXPECT_THAT(failed.begin()->second, HasSubstr(reason));
  }
};

TEST_P(PluginStatuses, WrongResultsFail) {
  auto trials =
      run("wrong_twins", GetParam(),
          "twin_half_gradient,twin_sums_not_reduced,twin_leaves_unwritten,twin_right", kCase, 10);
  EXPECT_EQ(trials["twin_right"].at("status"), "passed");
  EXPECT_NEAR(trials["twin_half_gradient"].at("gradient_scale").at("grad_logits"), 0.5, 1e-3);
  for (const char* name :
       {"twin_half_gradient", "twin_sums_not_reduced", "twin_leaves_unwritten"}) {
    EXPECT_EQ(trials[name].at("status"), "failed") << name;
  }
  EXPECT_THAT(
      failed_invariants(trials["twin_leaves_unwritten"]),
      ::testing::Contains(::testing::Pair("every_element_written", HasSubstr("13 elements"))));
}

TEST_P(PluginStatuses, WritesToOthersMemoryFail) {
  auto trials = run("wrong_twins", GetParam(),
                    "twin_writes_beyond,twin_writes_padding,twin_changes_input,twin_changes_labels",
                    kCase, 10);
  expect_invariant(trials["twin_writes_beyond"], "guard_bands_intact",
                   "outside of: plugin_tensors/grad.logits");
  expect_invariant(trials["twin_writes_padding"], "guard_bands_intact",
                   "outside of: columns of padding of grad.logits");
  expect_invariant(trials["twin_changes_input"], "inputs_unmodified",
                   "the function changed logits");
  expect_invariant(trials["twin_changes_labels"], "inputs_unmodified",
                   "the function changed batch.labels");
}

TEST_P(PluginStatuses, LeaksFail) {
  auto trials = run("wrong_twins", GetParam(), "twin_leaks", kCase, 10);
  expect_invariant(trials["twin_leaks"], "plan_frees_its_memory",
                   "its end left 208 bytes of 'row_sums'");
}

TEST_P(PluginStatuses, ErrorsHaveTheirText) {
  auto trials = run("wrong_twins", GetParam(),
                    "twin_returns_error,twin_returns_no_text,twin_fails_on_one_rank,"
                    "twin_ignores_failure,twin_releases_twice,twin_plan_fails,twin_waits_alone,"
                    "twin_right",
                    kCase, 14);
  EXPECT_EQ(trials["twin_right"].at("status"), "passed");
  const auto expect_error = [&](const std::string& name, const std::string& reason) {
    EXPECT_EQ(trials[name].at("status"), "error") << name;
    EXPECT_THAT(reason_of(trials[name]), ContainsRegex(reason)) << name;
  };
  expect_error("twin_returns_error", "forward of 'twin_returns_error': no such column$");
  expect_error("twin_returns_no_text",
               "forward of 'twin_returns_no_text': code 42 without a text$");
  expect_error("twin_fails_on_one_rank",
               "^rank 1 in forward: forward of 'twin_fails_on_one_rank': only here$");
  EXPECT_EQ(trials["twin_fails_on_one_rank"].at("first_failed_rank"), 1);
  expect_error("twin_ignores_failure",
               "all_reduce of bf16: reductions take f64, f32, i64 and i32$");
  expect_error("twin_releases_twice", "it released memory that is not allocated$");
  expect_error("twin_plan_fails", "in plan: (plan|begin) of 'twin_plan_fails': no plan for this$");
  expect_error("twin_waits_alone", "ranks disagree in call #3 of 'tp'|all ranks wait: ");
}

TEST_P(PluginStatuses, NoMemoryIsAStatusOfItsOwn) {
  auto trials = run("wrong_twins", GetParam(), "twin_has_no_memory", kCase, 14);
  EXPECT_EQ(trials["twin_has_no_memory"].at("status"), "out_of_memory");
  EXPECT_THAT(reason_of(trials["twin_has_no_memory"]), HasSubstr("no workspace of 1 TiB"));
}

TEST_P(PluginStatuses, PlansAreHeldToTheirCost) {
  auto trials = run("wrong_twins", GetParam(), "twin_wrong_cost,twin_no_cost_known", kCase, 12);
  EXPECT_THAT(reason_of(trials["twin_wrong_cost"]),
              HasSubstr("tp all_reduce: 2 calls and 312 bytes, predicted 1 and 312"));
  EXPECT_EQ(trials["twin_no_cost_known"].at("status"), "passed");
}

TEST_P(PluginStatuses, RefusalsHaveTheirReason) {
  auto trials = run("wrong_twins", GetParam(), "twin_supports_nothing", kCase, 77);
  EXPECT_EQ(reason_of(trials["twin_supports_nothing"]), "takes nothing");
}

TEST_P(PluginStatuses, ExceptionsStayInThePlugin) {
  auto trials = run("wrong_throws", GetParam(), "twin_throws", kCase, 14);
  EXPECT_EQ(trials["twin_throws"].at("status"), "error");
  EXPECT_THAT(reason_of(trials["twin_throws"]),
              HasSubstr("forward of 'twin_throws': a C++ exception left the plugin: out of ideas"));
}

INSTANTIATE_TEST_SUITE_P(Places, PluginStatuses,
                         ::testing::Values(Place::in_process, Place::isolated), name_of_place);

// The two places differ in these.

#if !LOSSGRID_ASAN && !LOSSGRID_TSAN  // they catch the signal
TEST_F(Plugins, ACrashEndsTheProcess) {
  run("wrong_twins", Place::in_process, "twin_segfaults", kCase, 128 + SIGSEGV);
}

TEST_F(Plugins, ACrashEndsOneTrialOfIsolatedOnes) {
  auto trials = run("wrong_twins", Place::isolated, "twin_segfaults,twin_right", kCase, 14);
  const ordered_json& crashed = trials["twin_segfaults"];
  EXPECT_EQ(crashed.at("status"), "crashed");
  EXPECT_EQ(reason_of(crashed),
            "rank 1 in forward: forward of 'twin_segfaults': its process ended with signal 11 "
            "(SIGSEGV)");
  EXPECT_EQ(crashed.at("rank_states")[1].at("detail"), "printed:\nabout to crash\n");
  EXPECT_EQ(trials["twin_right"].at("status"), "passed");
}
#endif

TEST_F(Plugins, AHangEndsTheRun) {
  auto trials =
      run("wrong_twins", Place::in_process, "twin_hangs,twin_right", kCase + "--timeout 3", 15);
  EXPECT_EQ(trials["twin_hangs"].at("status"), "timeout");
  EXPECT_THAT(reason_of(trials["twin_hangs"]), StartsWith("rank 1 in forward: rank 1 hangs"));
  EXPECT_EQ(trials["twin_right"].at("status"), "not_run");
}

TEST_F(Plugins, AHangEndsOneTrialOfIsolatedOnes) {
  auto trials =
      run("wrong_twins", Place::isolated, "twin_hangs,twin_right", kCase + "--timeout 4", 15);
  const ordered_json& hangs = trials["twin_hangs"];
  EXPECT_EQ(hangs.at("status"), "timeout");
  EXPECT_THAT(reason_of(hangs),
              StartsWith("rank 1 in forward: forward of 'twin_hangs': the deadline "
                         "has passed in libwrong_twins.so ("));
  EXPECT_EQ(trials["twin_right"].at("status"), "passed");
}

}  // namespace
}  // namespace lossgrid
