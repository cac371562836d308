// SPDX-License-Identifier: Apache-2.0
// The table of verdicts: facts about a trial, and the status and reason that follow from them.
#include "harness/runner/verdict/trial_verdict.h"

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

struct VerdictCase {
  std::string name;
  TrialFacts facts;
  TrialStatus status;
  std::string reason;
};

CheckRecord failed_check(const std::string& name) {
  CheckRecord check;
  check.name = name;
  check.ratio = 2.5;
  return check;
}

CheckRecord failed_at(const std::string& name, std::int64_t rank) {
  CheckRecord check = failed_check(name);
  check.worst = WorstElement{rank, 1, 2, 3, 0.5, 0.25};
  return check;
}

CheckRecord passed_check(const std::string& name) {
  CheckRecord check;
  check.name = name;
  check.passed = true;
  return check;
}

const InvariantRecord kZeroRows{"masked_rows_zero", "failed", "3 elements"};
const InvariantRecord kNotRun{"shift_invariance", "not_run", "bf16 rounds the shift away"};
const InvariantRecord kScale{"scale_identity", "failed", "dp = 2, must be 1"};
const DeterminismRecord kBrokenClaim{"packing", "different_bits", true, "compared with tp1cp1"};
const DeterminismRecord kNoClaim{"tp_size", "different_bits", false, "compared with tp1cp1"};

TrialFacts compared() {
  TrialFacts facts;
  facts.compared = true;
  facts.checks = {passed_check("loss"), passed_check("logprobs")};
  facts.invariants = {{"guard_bands_intact", "passed", ""}, kNotRun};
  facts.determinism = {{"run_to_run", "same_bits", true, ""}, kNoClaim};
  return facts;
}

TrialFacts failed_with(ErrorCode code) {
  TrialFacts facts;
  facts.failure = {code, "rank 1 in forward: text"};
  return facts;
}

TrialFacts refused(const std::vector<std::string>& stated) {
  TrialFacts facts = failed_with(ErrorCode::unsupported);
  facts.stated_skips = stated;
  return facts;
}

template <typename Change>
TrialFacts compared_but(Change&& change) {
  TrialFacts facts = compared();
  change(facts);
  return facts;
}

const std::string kRank = "rank 1 in forward: text";

std::vector<VerdictCase> verdict_cases() {
  using enum TrialStatus;
  return {
      {"nothing is known", {}, not_run, ""},
      {"not reached", {.not_reached = "interrupted"}, not_run, "interrupted"},
      {"skipped", {.skipped = SkipReason{"takes logits"}}, skipped, "takes logits"},
      {"skipped before all", compared_but([](TrialFacts& facts) {
         facts.skipped = SkipReason{"takes logits"};
         facts.failure = {ErrorCode::timeout, "late"};
         facts.checks.push_back(failed_check("loss"));
       }),
       skipped, "takes logits"},
      {"a rank threw", failed_with(ErrorCode::internal), error, kRank},
      {"bad input of a rank", failed_with(ErrorCode::bad_input), error, kRank},
      {"user code raised", failed_with(ErrorCode::rank_failed), error, kRank},
      {"a rank hung", failed_with(ErrorCode::timeout), timeout, kRank},
      {"no memory", failed_with(ErrorCode::not_enough_memory), out_of_memory, kRank},
      {"GPU lost", failed_with(ErrorCode::device_lost), crashed, kRank},
      {"process died", failed_with(ErrorCode::process_died), crashed, kRank},
      {"a rank cannot", failed_with(ErrorCode::unsupported), skipped, kRank},
      {"a refusal that is stated", refused({"another", "in forward"}), skipped, kRank},
      {"a refusal that is not stated", refused({"in backward"}), failed,
       "skipped: " + kRank + " (its suite expects it to run)"},
      {"a refusal where none is stated", refused({}), failed,
       "skipped: " + kRank + " (its suite expects it to run)"},
      {"a machine that cannot",
       {.skipped = SkipReason{"not enough memory"}, .stated_skips = std::vector<std::string>()},
       skipped,
       "not enough memory"},
      {"cut short before wrong", compared_but([](TrialFacts& facts) {
         facts.failure = {ErrorCode::timeout, "late"};
         facts.invariants.push_back(kZeroRows);
       }),
       timeout, "late"},
      {"all right", compared(), passed, ""},
      {"a check without an element",
       compared_but([](TrialFacts& facts) { facts.checks.push_back(failed_check("entropy")); }),
       failed, "entropy"},
      {"an invariant",
       compared_but([](TrialFacts& facts) { facts.invariants.push_back(kZeroRows); }), failed,
       "masked_rows_zero: 3 elements"},
      {"a claim",
       compared_but([](TrialFacts& facts) { facts.determinism.push_back(kBrokenClaim); }), failed,
       "determinism: packing gave different bits, compared with tp1cp1"},
      {"a claim without detail", compared_but([](TrialFacts& facts) {
         facts.determinism.push_back({"run_to_run", "different_bits", true, ""});
       }),
       failed, "determinism: run_to_run gave different bits"},
      {"costs", compared_but([](TrialFacts& facts) {
         facts.cost_mismatches = {"memory: more", "communication: more"};
       }),
       failed, "memory: more; communication: more"},
      {"all of them in order", compared_but([](TrialFacts& facts) {
         facts.expected = {passed_check("expected.loss"), failed_check("expected.logprobs")};
         facts.cost_mismatches = {"memory: more"};
         facts.determinism.push_back(kBrokenClaim);
         facts.invariants = {kZeroRows, kScale};
         facts.checks = {failed_check("loss")};
       }),
       failed,
       "scale_identity: dp = 2, must be 1; loss; masked_rows_zero: 3 elements; determinism: "
       "packing gave different bits, compared with tp1cp1; memory: more; expected.logprobs"},
  };
}

TEST(TrialVerdict, FollowsFromTheFacts) {
  for (const VerdictCase& expected : verdict_cases()) {
    const TrialVerdict verdict = judge(expected.facts);
    EXPECT_EQ(name(verdict.status), name(expected.status)) << expected.name;
    EXPECT_EQ(verdict.reason, expected.reason) << expected.name;
  }
}

TEST(TrialVerdict, NamesTheWorstElementOfACheck) {
  const TrialFacts facts =
      compared_but([](TrialFacts& f) { f.checks.push_back(failed_at("grad_logits", 6)); });
  const TrialVerdict verdict = judge(facts);
  EXPECT_EQ(verdict.status, TrialStatus::failed);
  EXPECT_TRUE(verdict.reason.starts_with("grad_logits: ratio 2.5 at ")) << verdict.reason;
  EXPECT_NE(verdict.reason.find("rank 6"), std::string::npos) << verdict.reason;
}

TEST(TrialVerdict, ReplacesThatOfTheRecord) {
  TrialRecord record;
  record.status = TrialStatus::failed;
  record.reason = "loss";
  set_verdict(record, compared());
  EXPECT_EQ(record.status, TrialStatus::passed);
  EXPECT_EQ(record.reason, "");
}

TEST(TimingVerdict, IsThatOfATrialCutShort) {
  EXPECT_EQ(timing_status(TrialStatus::skipped), TimingStatus::skipped);
  EXPECT_EQ(timing_status(TrialStatus::timeout), TimingStatus::timeout);
  EXPECT_EQ(timing_status(TrialStatus::crashed), TimingStatus::crashed);
  EXPECT_EQ(timing_status(TrialStatus::out_of_memory), TimingStatus::out_of_memory);
  EXPECT_EQ(timing_status(TrialStatus::error), TimingStatus::error);
}

}  // namespace
}  // namespace lossgrid
