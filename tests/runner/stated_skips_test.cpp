// SPDX-License-Identifier: Apache-2.0
// Tests of refusals that a suite states, and of those that it does not state.
#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/problem/batch/packed_batch.h"
#include "harness/runner/rank/trial_setup.h"
#include "trials_of.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTooEarly = "one sweep comes too early";

Suite suite_of_pairs() {
  Suite suite;
  suite.cases = {parse_case("objective=dpo lens=4+3 vocab=24")};
  suite.grids = {{1, 1}, {2, 2}};
  suite.implementations = {"one_sweep"};
  return suite;
}

void expect_skipped(const Suite& suite) {
  for (const TrialRecord& trial : trials_of(suite)) {
    EXPECT_EQ(trial.status, TrialStatus::skipped) << trial.id;
    EXPECT_THAT(trial.reason, HasSubstr(kTooEarly));
  }
}

void expect_failed(const Suite& suite) {
  const std::vector<TrialRecord> trials = trials_of(suite);
  for (const TrialRecord& trial : trials) {
    EXPECT_EQ(trial.status, TrialStatus::failed) << trial.id;
    EXPECT_THAT(trial.reason, ::testing::StartsWith("skipped: the gradient of a token"));
    EXPECT_THAT(trial.reason, HasSubstr("its suite expects it to run"));
  }
  EXPECT_EQ(exit_code_of(trials), ExitCode::correctness);
}

TEST(StatedSkips, WithoutAStatementEveryRefusalIsASkip) {
  expect_skipped(suite_of_pairs());
}

TEST(StatedSkips, ARefusalThatIsStatedIsASkip) {
  Suite suite = suite_of_pairs();
  suite.skips = {{"one_sweep", "objective=dpo", kTooEarly}};
  expect_skipped(suite);
  suite.implementations = {"one_sweep:in_place=true", "mutant/sweep_sum_of_next_row"};
  expect_skipped(suite);
}

TEST(StatedSkips, AnyOtherRefusalFails) {
  Suite suite = suite_of_pairs();
  suite.skips.emplace();
  expect_failed(suite);
  suite.skips = {{"one_sweep", "objective=clipped_pg", kTooEarly}};
  expect_failed(suite);
  suite.skips = {{"one_sweep", "objective=dpo", "another reason"}};
  expect_failed(suite);
  suite.skips = {{"cp_local", "objective=dpo", kTooEarly}};
  expect_failed(suite);
  suite.implementations = {"mutant/sweep_sum_of_next_row"};
  expect_failed(suite);
}

TEST(StatedSkips, AMutantWithNothingToChangeNeedsNoStatement) {
  Suite suite = suite_of_pairs();
  suite.skips.emplace();
  suite.cases = {parse_case("lens=4+3 vocab=24")};
  suite.implementations = {"mutant/clipped_pg_use_importance_sampling_correction_ignored"};
  for (const TrialRecord& trial : trials_of(suite)) {
    EXPECT_EQ(trial.status, TrialStatus::skipped) << trial.id;
    EXPECT_EQ(trial.reason, "nothing to change in nll");
  }
}

/// A refusal that stands in a statement but is gone would hide the next one.
TEST(StatedSkips, AllOfTheRepositoryAreThoseOfTheImplementations) {
  setenv("LOSSGRID_CASES_DIR", LOSSGRID_SOURCE_DIR "/cases", 1);
  for (const std::string& name : suite_names()) {
    const Suite suite = read_suite(find_suite(name).at(0));
    ASSERT_TRUE(suite.skips) << name;
    for (CaseSpec spec : suite.cases) {
      // The weights of real models take long to draw, and no refusal depends on their size.
      spec.vocab = std::min<std::int64_t>(spec.vocab, 1 << 10);
      spec.hidden = std::min<std::int64_t>(spec.hidden, 1 << 6);
      if (spec.hidden_values == HiddenValues::one_hot) spec.hidden = spec.vocab;
      const Problem problem = make_problem(spec);
      const PackedBatch batch = pack(problem, suite.grids[0]);
      const auto objective = make_objective(spec.objective, spec.statistics);
      const LossProblem loss_problem =
          make_loss_problem(problem, batch, suite.grids[0], *objective);
      for (const std::string& text : suite.implementations) {
        const auto implementation = make_implementation(text);
        if (inputs_mismatch(*implementation, spec.hidden > 0)) continue;
        const auto refusal = implementation->unsupported(loss_problem);
        std::vector<std::string> stated = stated_reasons(*suite.skips, text, spec);
        // Skips for a reason of the processor differ from machine to machine.
        std::erase_if(stated, [](const std::string& reason) {
          return reason.find("processor") != std::string::npos;
        });
        if (refusal && refusal->text.find("processor") != std::string::npos) continue;
        EXPECT_EQ(refusal.has_value(), !stated.empty()) << name << " " << spec.name << " " << text;
        if (!refusal || stated.empty()) continue;
        EXPECT_THAT(refusal->text, HasSubstr(stated[0]));
      }
    }
  }
  unsetenv("LOSSGRID_CASES_DIR");
}

}  // namespace
}  // namespace lossgrid
