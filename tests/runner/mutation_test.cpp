// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/mutation.h"

#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;

MutantRecord mutant_record(bool is_control, bool rejected, std::int64_t trials) {
  MutantRecord record;
  record.is_control = is_control;
  record.rejected = rejected;
  record.trials = trials;
  return record;
}

TEST(Mutation, MutantsAreRejectedControlsAcceptedAndAllOfThemRun) {
  const MutantRecord right_mutant = mutant_record(false, true, 1);
  const MutantRecord right_control = mutant_record(true, false, 5);
  EXPECT_EQ(exit_code_of({right_mutant, right_control}), ExitCode::ok);
  EXPECT_EQ(exit_code_of(std::vector<MutantRecord>()), ExitCode::nothing_ran);
  for (const MutantRecord& wrong : {mutant_record(false, false, 5), mutant_record(true, true, 1)}) {
    EXPECT_EQ(exit_code_of({right_mutant, wrong, right_control}), ExitCode::correctness);
  }
}

TEST(Mutation, OneToWhichNothingAppliesIsNoSurvivor) {
  const MutantRecord not_run = mutant_record(false, false, 0);
  EXPECT_EQ(exit_code_of({not_run, mutant_record(true, false, 0)}), ExitCode::nothing_ran);
  EXPECT_EQ(exit_code_of({mutant_record(false, true, 1), not_run}), ExitCode::ok);
  EXPECT_EQ(exit_code_of({mutant_record(false, false, 1), not_run}), ExitCode::correctness);
  EXPECT_EQ(not_run.verdict(), "not_run");
  EXPECT_EQ(mutant_record(false, false, 1).verdict(), "survived");
}

MutantRecord record_of_mutant(const std::string& name, const std::vector<std::string>& case_texts,
                              const std::vector<Grid>& grids = {{1, 1}, {1, 2}}) {
  Suite suite;
  for (const std::string& text : case_texts) {
    suite.cases.push_back(parse_case(text));
    suite.cases.back().name = "small";
  }
  suite.grids = grids;
  ProblemCache problems;
  std::vector<MutantRecord> records;
  EXPECT_FALSE(run_mutants({suite}, {name}, RunOptions(), problems,
                           [&](const MutantRecord& record) { records.push_back(record); }));
  EXPECT_EQ(records.size(), 1u);
  return records.at(0);
}

TEST(Mutation, NamesWhatRejectedAMutant) {
  // Right on one rank; the second trial is the last.
  const MutantRecord costly = record_of_mutant("mutant/undeclared_gather", {"lens=8 vocab=24"});
  EXPECT_EQ(costly.name, "mutant/undeclared_gather");
  EXPECT_TRUE(costly.rejected);
  EXPECT_FALSE(costly.is_control);
  EXPECT_EQ(costly.trials, 2);
  EXPECT_EQ(costly.what, "cp_local: gathers the logits over CP and does not declare it");
  EXPECT_EQ(costly.rejected_by_case, "small");
  EXPECT_EQ(costly.rejected_by_grid, "tp1cp2");
  EXPECT_THAT(costly.reproduce,
              testing::HasSubstr("--impl mutant/undeclared_gather --grid tp1cp2"));
  EXPECT_THAT(costly.rejected_by_checks, ElementsAre("memory", "communication"));
  const MutantRecord wrong =
      record_of_mutant("mutant/gradient_times_1.02", {"lens=8 vocab=24 mask=all"});
  EXPECT_EQ(wrong.trials, 1);
  EXPECT_THAT(wrong.rejected_by_checks, ElementsAre("grad_logits", "grad_logits_bias"));
  EXPECT_EQ(wrong.catalogue_id, "");
  EXPECT_EQ(record_of_mutant("mutant/gradient_times_cp", {"lens=8 vocab=24"}).catalogue_id, "M1");
}

TEST(Mutation, AGridThatCutsVocabularyAndSequencesIsTheFirst) {
  const std::vector<std::string> cases{"lens=8 vocab=24", "lens=5+3 vocab=24"};
  const MutantRecord costly =
      record_of_mutant("mutant/undeclared_gather", cases, {{1, 1}, {1, 2}, {2, 2}, {2, 4}});
  EXPECT_EQ(costly.trials, 1);
  EXPECT_EQ(costly.rejected_by_grid, "tp2cp2");
  // Without one the order is that of the suite, and all cases run on a grid before the next one.
  EXPECT_EQ(record_of_mutant("mutant/undeclared_gather", cases).trials, 3);
}

TEST(Mutation, SkippedTrialsAreNotCounted) {
  const std::string from_logits = "lens=8 vocab=24";
  const MutantRecord skipped = record_of_mutant("mutant/linear_retained_chunks", {from_logits});
  EXPECT_EQ(skipped.trials, 0);
  EXPECT_FALSE(skipped.rejected);
  EXPECT_THAT(skipped.reason, testing::HasSubstr("hidden states"));
  const MutantRecord next = record_of_mutant("mutant/linear_retained_chunks",
                                             {from_logits, "lens=600 vocab=24 hidden=6"});
  EXPECT_EQ(next.trials, 1);
  EXPECT_TRUE(next.rejected);
}

/// Registers a mutant that is 'mutant/gradient_times_2' under another name.
void register_twin(const std::string& name, const std::string& unchanged,
                   const std::string& rejected_by) {
  ImplementationEntry twin;
  twin.name = name;
  twin.kind = ImplementationKind::mutant;
  twin.make = [](const ImplementationOptions&) {
    return make_implementation("mutant/gradient_times_2");
  };
  twin.unchanged = unchanged;
  twin.rejected_by = rejected_by;
  register_implementation(std::move(twin));
}

TEST(Mutation, ATrialThatItsImplementationFailsUnchangedRejectsNothing) {
  register_twin("mutant/of_a_right_one", "fused", "");
  register_twin("mutant/of_a_wrong_one", "mutant/gradient_times_1.02", "");
  EXPECT_TRUE(record_of_mutant("mutant/of_a_right_one", {"lens=8 vocab=24 mask=all"}).rejected);
  const MutantRecord wrong =
      record_of_mutant("mutant/of_a_wrong_one", {"lens=8 vocab=24 mask=all"});
  EXPECT_FALSE(wrong.rejected);
  EXPECT_EQ(wrong.trials, 2);
  EXPECT_EQ(wrong.not_counted, 2);
  EXPECT_THAT(wrong.reason,
              testing::StartsWith("small, tp1cp1: 'mutant/gradient_times_1.02' does not pass it, "
                                  "either: grad_logits"));
  EXPECT_EQ(exit_code_of({wrong}), ExitCode::correctness);
}

TEST(Mutation, OnlyTheCheckThatTheCatalogueNamesRejects) {
  register_twin("mutant/of_the_gradient", "fused", "grad_logits_bias");
  register_twin("mutant/of_the_loss", "fused", "loss");
  EXPECT_TRUE(record_of_mutant("mutant/of_the_gradient", {"lens=8 vocab=24 mask=all"}).rejected);
  const MutantRecord other = record_of_mutant("mutant/of_the_loss", {"lens=8 vocab=24 mask=all"});
  EXPECT_FALSE(other.rejected);
  EXPECT_EQ(other.not_counted, 2);
  EXPECT_EQ(other.reason,
            "small, tp1cp1: fails grad_logits, grad_logits_bias, and the catalogue names loss");
}

TEST(Mutation, ANameIsThatOfACheckOrOfAStatus) {
  EXPECT_TRUE(has_named_check({"loss", "error: rank 7 left"}, "loss"));
  EXPECT_TRUE(has_named_check({"loss", "error: rank 7 left"}, "error"));
  EXPECT_TRUE(has_named_check({"loss"}, ""));
  EXPECT_FALSE(has_named_check({"loss", "metric.loss"}, "metric"));
  EXPECT_FALSE(has_named_check({"grad_logits_bias"}, "grad_logits"));
  EXPECT_TRUE(has_named_check({"grad_logits"}, "loss or grad_logits"));
  EXPECT_TRUE(has_named_check({"metric.loss"}, "loss or metric.*"));
  EXPECT_FALSE(has_named_check({"grad_logits"}, "loss or metric.*"));
}

TEST(Mutation, BitsOverPackingsAreComparedForTheUnchangedOneToo) {
  const MutantRecord bits =
      record_of_mutant("mutant/other_bits_with_cp", {"lens=8 vocab=24"}, {{1, 1}, {1, 2}});
  EXPECT_TRUE(bits.rejected);
  EXPECT_THAT(bits.rejected_by_checks, ElementsAre("packing"));
}

TEST(Mutation, AMistakeThatOneBackendShowsIsJudgedThere) {
  const MutantRecord twice =
      record_of_mutant("mutant/rows_read_twice", {"lens=8 vocab=24 mask=all"});
  EXPECT_TRUE(twice.rejected);
  EXPECT_THAT(twice.rejected_by_checks, ElementsAre("traffic"));
  EXPECT_THAT(twice.reproduce, testing::HasSubstr("--backend cuda_emulated"));
}

/// Runs two mutants of which the first hangs, and ends the process with the number of records.
[[noreturn]] void run_two_mutants_that_hang() {
  Suite suite;
  suite.cases = {parse_case("lens=8 vocab=24")};
  suite.grids = {{1, 2}};
  RunOptions options;
  options.deadline = std::chrono::milliseconds(200);
  options.fault = parse_fault("rank=1,at=forward,kind=hang");
  ProblemCache problems;
  int records = 0;
  const bool must_end = run_mutants({suite}, {"mutant/gradient_times_2", "mutant/zero_gradient"},
                                    options, problems, [&](const MutantRecord&) { ++records; });
  std::_Exit(must_end ? records : 99);
}

TEST(MutationDeathTest, NothingRunsBehindARankThatHangs) {
  EXPECT_EXIT(run_two_mutants_that_hang(), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace lossgrid
