// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "trials_of.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Suite small_suite() {
  Suite suite;
  suite.cases = {parse_case("lens=9+7 vocab=33 mask=all")};
  suite.grids = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};
  suite.implementations = {"cp_local"};
  return suite;
}

std::string verdict_of(const TrialRecord& trial, const std::string& name) {
  for (const DeterminismRecord& verdict : trial.determinism) {
    if (verdict.name == name) return verdict.verdict;
  }
  return "missing";
}

TEST(Run, ComparesBitsOverPackingsAndTpSizes) {
  const std::vector<TrialRecord> trials = trials_of(small_suite());
  ASSERT_EQ(trials.size(), 4u);
  for (const TrialRecord& trial : trials) {
    EXPECT_EQ(trial.status, TrialStatus::passed) << trial.reason;
    EXPECT_EQ(verdict_of(trial, "run_to_run"), "same_bits");
  }
  EXPECT_EQ(verdict_of(trials[0], "packing"), "not_compared");
  EXPECT_EQ(verdict_of(trials[1], "packing"), "same_bits");
  EXPECT_EQ(verdict_of(trials[3], "packing"), "same_bits");
  EXPECT_EQ(verdict_of(trials[0], "tp_size"), "not_compared");
  EXPECT_NE(verdict_of(trials[2], "tp_size"), "not_compared");
}

TEST(Run, ReferenceHasTheSameBitsForEveryTpSize) {
  Suite suite = small_suite();
  suite.implementations = {"reference"};
  const std::vector<TrialRecord> trials = trials_of(suite);
  EXPECT_EQ(verdict_of(trials[2], "tp_size"), "same_bits");
  EXPECT_EQ(verdict_of(trials[3], "packing"), "same_bits");
}

TEST(Run, ComparesWhatStandsByTokenOfHiddenStates) {
  Suite suite;
  suite.cases = {parse_case("lens=9+7 vocab=33 hidden=5 mask=all")};
  suite.grids = {{1, 1}, {1, 2}, {2, 1, 1, true}, {2, 2}};
  suite.implementations = {"reference"};
  const std::vector<TrialRecord> trials = trials_of(suite);
  ASSERT_EQ(trials.size(), 4u);
  for (const TrialRecord& trial : trials) {
    EXPECT_EQ(trial.status, TrialStatus::passed) << trial.reason;
  }
  EXPECT_EQ(verdict_of(trials[1], "packing"), "same_bits");
  EXPECT_EQ(verdict_of(trials[3], "packing"), "same_bits");
  EXPECT_EQ(verdict_of(trials[3], "tp_size"), "same_bits");
  EXPECT_EQ(trials[3].determinism[1].detail, "compared with tp2cp1sp");
  // A sum over tokens is another one on every CP rank: not compared, though reported.
  EXPECT_NE(trials[1].fingerprints.at("grad_weight"), trials[0].fingerprints.at("grad_weight"));
}

TEST(Run, DefaultImplementationsTakeTheirKindOfInputs) {
  for (const bool from_hidden : {false, true}) {
    for (const std::string& text : default_implementations(from_hidden)) {
      const InputKind other = from_hidden ? InputKind::logits : InputKind::hidden;
      EXPECT_NE(make_implementation(text)->describe().inputs, other) << text;
    }
  }
}

/// per_sequence adds up cp times g / cp: not the same bits for cp = 8 as for cp = 1.
class ClaimsTooMuch final : public LossImplementation {
 public:
  ImplementationTraits describe() const override {
    ImplementationTraits description = right_->describe();
    description.claims_packing = true;
    return description;
  }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return right_->plan(problem, context);
  }

 private:
  std::unique_ptr<LossImplementation> right_ = make_implementation("per_sequence");
};

/// Registers ClaimsTooMuch, once, and returns its name.
const std::string& claims_too_much() {
  static const std::string name = [] {
    ImplementationEntry entry;
    entry.name = "mutant/claims_too_much";
    entry.kind = ImplementationKind::mutant;
    entry.make = [](const ImplementationOptions&) { return std::make_unique<ClaimsTooMuch>(); };
    register_implementation(entry);
    return entry.name;
  }();
  return name;
}

TEST(Run, AClaimOfTheSameBitsThatIsNotKeptFails) {
  Suite suite;
  suite.cases = {parse_case("lens=16+32+16 mask=all vocab=48")};
  suite.grids = {{1, 1}, {1, 8}};
  suite.implementations = {claims_too_much()};
  const std::vector<TrialRecord> trials = trials_of(suite);
  EXPECT_EQ(trials[0].status, TrialStatus::passed);
  EXPECT_EQ(trials[1].status, TrialStatus::failed);
  EXPECT_THAT(trials[1].reason, HasSubstr("determinism: packing gave different bits"));
  EXPECT_EQ(exit_code_of(trials), ExitCode::correctness);
}

TEST(Run, ByGridAllCasesRunOnAGridBeforeTheNext) {
  Suite suite;
  suite.cases = {parse_case("lens=5+3 vocab=24"), parse_case("lens=16+32+16 mask=all vocab=48")};
  suite.grids = {{1, 1}, {1, 8}};
  suite.implementations = {claims_too_much()};
  RunOptions options;
  options.order = TrialOrder::by_grid;
  ProblemCache problems;
  std::vector<TrialRecord> trials;
  run_suites({suite}, options, problems, [&](const TrialRecord& trial) {
    trials.push_back(trial);
    return true;
  });
  std::vector<std::string> ids;
  for (const TrialRecord& trial : trials) ids.push_back(trial.id.substr(0, 6) + trial.grid());
  EXPECT_THAT(ids, ElementsAre("lens=5tp1cp1", "lens=1tp1cp1", "lens=5tp1cp8", "lens=1tp1cp8"));
  // Bits are compared with those of the same case on the first grid.
  EXPECT_THAT(trials.at(3).reason, HasSubstr("determinism: packing gave different bits"));
}

TEST(Run, StopsIfTheSinkReturnsFalse) {
  ProblemCache problems;
  int seen = 0;
  run_suites({small_suite()}, RunOptions(), problems,
             [&](const TrialRecord&) { return ++seen < 2; });
  EXPECT_EQ(seen, 2);
}

TEST(Run, StopsAtTheFirstTrialThatDoesNotPass) {
  Suite suite = small_suite();
  suite.grids = {{1, 1}, {1, 2}, {2, 2}};  // gradient_times_cp is right on the first one
  suite.implementations = {"mutant/gradient_times_cp"};
  for (const bool stop : {false, true}) {
    RunOptions options;
    options.stop_at_failure = stop;
    ProblemCache problems;
    std::vector<TrialStatus> statuses;
    EXPECT_FALSE(run_suites({suite}, options, problems, [&](const TrialRecord& trial) {
      statuses.push_back(trial.status);
      return true;
    }));
    std::vector<TrialStatus> expected = {TrialStatus::passed, TrialStatus::failed};
    if (!stop) expected.push_back(TrialStatus::failed);
    EXPECT_EQ(statuses, expected);
  }
}

TEST(Run, ExitCodeIsTheWorstOfTheTrials) {
  TrialRecord passed;
  passed.status = TrialStatus::passed;
  TrialRecord wrong;
  wrong.status = TrialStatus::failed;
  wrong.checks.push_back({"loss", false, 2, 1, 0.5, {}, 1, 1});
  TrialRecord costly;
  costly.status = TrialStatus::failed;
  costly.cost_mismatches = {"memory"};
  TrialRecord crashed;
  crashed.status = TrialStatus::error;
  TrialRecord hung;
  hung.status = TrialStatus::timeout;
  TrialRecord skipped;
  skipped.status = TrialStatus::skipped;
  using Trials = std::vector<TrialRecord>;
  EXPECT_EQ(exit_code_of(Trials{passed, skipped}), ExitCode::ok);
  EXPECT_EQ(exit_code_of(Trials{passed, costly}), ExitCode::cost_regression);
  EXPECT_EQ(exit_code_of(Trials{costly, wrong, passed}), ExitCode::correctness);
  EXPECT_EQ(exit_code_of(Trials{crashed, wrong}), ExitCode::rank_crashed);
  for (const TrialStatus status : {TrialStatus::crashed, TrialStatus::out_of_memory}) {
    crashed.status = status;
    EXPECT_EQ(exit_code_of(Trials{wrong, crashed}), ExitCode::rank_crashed);
  }
  EXPECT_EQ(exit_code_of(Trials{hung, wrong}), ExitCode::hang);
  EXPECT_EQ(exit_code_of(Trials{skipped}), ExitCode::nothing_ran);
  EXPECT_EQ(exit_code_of(Trials{}), ExitCode::nothing_ran);
}

std::string refusal(const Suite& suite, int max_ranks = 64) {
  try {
    require_runnable({suite}, max_ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(Run, RefusesBeforeAnythingRuns) {
  EXPECT_EQ(refusal(small_suite()), "accepted");
  Suite suite = small_suite();
  suite.implementations = {"fusd"};
  EXPECT_THAT(refusal(suite), HasSubstr("did you mean 'fused'?"));
  suite = small_suite();
  EXPECT_THAT(refusal(suite, 2), HasSubstr("grid tp2cp2 needs 4 ranks, at most 2 are allowed"));
  suite.cases = {parse_case("vocab=3 lens=4")};
  suite.grids = {{4, 1}};
  EXPECT_THAT(refusal(suite), HasSubstr("tp = 4 exceeds the vocabulary of 3"));
  suite = small_suite();
  suite.cases[0].objective.kind = "nlll";
  EXPECT_THAT(refusal(suite), HasSubstr("objective 'nlll'"));
  suite = small_suite();
  suite.implementations = {"fused:chunk_tokens=0"};
  EXPECT_THAT(refusal(suite), HasSubstr("chunk_tokens"));
}

}  // namespace
}  // namespace lossgrid
