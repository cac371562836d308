// SPDX-License-Identifier: Apache-2.0
// State of every rank of a trial that was cut short, for each way to end it.
#include "harness/runner/verdict/desync_report.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/runner/trial/trial.h"
#include "trials_of.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr milliseconds kNoHurry{60000};
constexpr const char* kCase = "lens=8+16+4+6 vocab=24 microbatches=2";

TrialRecord run_with(const std::string& fault, milliseconds deadline = kNoHurry,
                     const std::string& implementation = "fused", const Grid& grid = {2, 2}) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(kCase)));
  TrialSetup setup = make_trial(prepared, implementation, grid);
  setup.fault = parse_fault(fault);
  return run_trial(setup, deadline).record;
}

std::vector<std::string> states_of(const TrialRecord& record) {
  std::vector<std::string> states;
  for (const RankRecord& rank : record.ranks) states.push_back(rank.state);
  return states;
}

void expect_complete(const TrialRecord& record, std::size_t ranks) {
  ASSERT_EQ(record.ranks.size(), ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const RankRecord& rank = record.ranks[r];
    EXPECT_EQ(rank.rank, static_cast<std::int64_t>(r));
    EXPECT_FALSE(rank.phase.empty()) << r;
    ASSERT_FALSE(rank.collectives.empty()) << r;
    for (const std::string& call : rank.collectives) EXPECT_THAT(call, HasSubstr(", call #"));
  }
}

TEST(DesyncReport, NamesThePhaseOfARankThatThrew) {
  for (const RankPhase phase : kRankPhases) {
    const std::string text(name(phase));
    const TrialRecord record = run_with("rank=2,kind=throw,at=" + text);
    EXPECT_EQ(record.status, TrialStatus::error);
    EXPECT_EQ(record.reason, "rank 2 in " + text + ": injected failure in " + text);
    EXPECT_EQ(record.first_failed_rank, 2);
    expect_complete(record, 4);
    EXPECT_EQ(record.ranks[2].state, "threw");
    EXPECT_EQ(record.ranks[2].phase, text);
    EXPECT_EQ(record.ranks[2].message, "injected failure in " + text);
    EXPECT_THAT(record.ranks[2].collectives.back(), HasSubstr(", done"));
  }
}

// By the deadline all other ranks wait.
TEST(DesyncReport, DistinguishesARankThatHangsFromThoseThatWait) {
  const TrialRecord record = run_with("rank=2,kind=hang,at=forward", milliseconds(2000));
  EXPECT_EQ(record.status, TrialStatus::timeout);
  EXPECT_EQ(record.first_failed_rank, 2);
  EXPECT_THAT(record.reason, HasSubstr("rank 2 in forward: rank 2 hangs"));
  expect_complete(record, 4);
  EXPECT_THAT(states_of(record), ElementsAre("waiting", "waiting", "hangs", "waiting"));
  for (const RankRecord& rank : record.ranks) EXPECT_EQ(rank.phase, "forward");
  // Rank 3 shares the vocabulary with rank 2, and rank 0 the sequences; rank 1 waits for rank 3.
  const auto last = [&](std::size_t rank) { return record.ranks[rank].collectives.back(); };
  EXPECT_THAT(last(2), HasSubstr("call #5 of 'world', done"));
  EXPECT_THAT(last(3), HasSubstr("call #1 of 'tp', entered"));
  EXPECT_THAT(last(0), HasSubstr("call #1 of 'cp', entered"));
  EXPECT_THAT(last(1), HasSubstr("call #1 of 'cp', entered"));
  EXPECT_THAT(record.ranks[3].message, HasSubstr("passed while rank 3 waits in"));
}

TEST(DesyncReport, NamesARankThatLeft) {
  const TrialRecord record = run_with("rank=1,kind=leave,at=plan");
  EXPECT_EQ(record.status, TrialStatus::error);
  expect_complete(record, 4);
  EXPECT_EQ(record.ranks[1].state, "returned");
  EXPECT_EQ(record.ranks[1].phase, "plan");
  EXPECT_EQ(record.ranks[0].state, "waiting");
}

TEST(DesyncReport, ARankWithoutMemoryThrew) {
  const TrialRecord record = run_with("rank=0,kind=oom,at=plan");
  EXPECT_EQ(record.status, TrialStatus::out_of_memory);
  EXPECT_EQ(record.reason, "rank 0 in plan: out of memory");
  EXPECT_EQ(record.ranks[0].state, "threw");
}

/// Returns the check of this name when it did not pass, else null.
const CheckRecord* failed_check(const TrialRecord& record, const std::string& name) {
  for (const CheckRecord& check : record.checks) {
    if (check.name == name && !check.passed) return &check;
  }
  return nullptr;
}

TEST(InjectedNan, IsFoundByTheCheckOfItsTensorAndNamesTheRank) {
  for (const char* implementation : {"per_sequence", "fused", "one_sweep:in_place=true"}) {
    for (const int rank : {0, 3}) {
      const std::string who = fmt::format("rank={},kind=nan,at=", rank);
      TrialRecord record = run_with(who + "forward", kNoHurry, implementation);
      EXPECT_EQ(record.status, TrialStatus::failed);
      EXPECT_THAT(record.ranks, IsEmpty());
      const CheckRecord* check = failed_check(record, "logprobs");
      ASSERT_NE(check, nullptr) << implementation;
      EXPECT_EQ(check->worst->rank, rank);
      EXPECT_TRUE(std::isnan(check->worst->got));
      EXPECT_EQ(failed_check(record, "grad_logits"), nullptr);
      record = run_with(who + "backward", kNoHurry, implementation);
      check = failed_check(record, "grad_logits");
      ASSERT_NE(check, nullptr) << implementation;
      EXPECT_EQ(check->worst->rank, rank);
      EXPECT_TRUE(std::isnan(check->worst->got));
      EXPECT_EQ(failed_check(record, "logprobs"), nullptr);
    }
  }
}

TEST(InjectedNan, IsFoundInTheGradientOfHiddenStates) {
  const PreparedProblem prepared = prepare(make_problem(parse_case("lens=8+16 vocab=24 hidden=8")));
  TrialSetup setup = make_trial(prepared, "linear_ce", {2, 2, 1, true});
  setup.fault = parse_fault("rank=3,kind=nan,at=backward");
  const TrialRecord record = run_trial(setup, kNoHurry).record;
  const CheckRecord* check = failed_check(record, "grad_hidden");
  ASSERT_NE(check, nullptr) << record.reason;
  EXPECT_EQ(check->worst->rank, 3);
  EXPECT_TRUE(std::isnan(check->worst->got));
}

/// Returns the statuses of a suite of four trials.
std::vector<std::string> statuses_with(const std::string& fault) {
  Suite suite;
  suite.cases = {parse_case("lens=9+7 vocab=33")};
  suite.grids = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};
  suite.implementations = {"fused"};
  RunOptions options;
  options.fault = parse_fault(fault);
  std::vector<std::string> statuses;
  for (const TrialRecord& trial : trials_of(suite, options)) {
    statuses.emplace_back(name(trial.status));
  }
  return statuses;
}

TEST(Faults, StrikeOneTrialOrAll) {
  EXPECT_THAT(statuses_with("rank=1,at=plan,kind=throw"),
              ElementsAre("passed", "error", "error", "error"));
  EXPECT_THAT(statuses_with("rank=1,at=plan,kind=throw,trial=3"),
              ElementsAre("passed", "passed", "error", "passed"));
  EXPECT_THAT(statuses_with("rank=1,at=check,kind=oom,trial=2"),
              ElementsAre("passed", "out_of_memory", "passed", "passed"));
}

TEST(DesyncReport, DistinguishesBusySilentAndThrowingRanks) {
  RankTrace in_call;
  in_call.known = true;
  in_call.calls = {{"barrier", "world", 1, false}};
  RanksOutcome outcome;
  outcome.ranks.resize(6);
  RankOutcome& silent = outcome.ranks[0];  // nothing is known of its process
  silent.code = ErrorCode::timeout;
  for (std::size_t r = 1; r < 6; ++r) {
    outcome.ranks[r].finished = true;
    outcome.ranks[r].trace = in_call;
    outcome.ranks[r].trace.end = RankEnd::threw;
  }
  outcome.ranks[1].code = ErrorCode::timeout;
  outcome.ranks[1].busy = true;  // and entered a call only then
  outcome.ranks[2].code = ErrorCode::aborted;
  outcome.ranks[3].code = ErrorCode::rank_failed;  // calls that do not match
  outcome.ranks[4].code = ErrorCode::internal;     // a bad argument, of this rank alone
  outcome.ranks[5].code = ErrorCode::rank_failed;
  outcome.ranks[5].cause = Cause::own;
  std::vector<std::string> states;
  for (const RankRecord& rank : desync_report(outcome)) states.push_back(rank.state);
  EXPECT_THAT(states, ElementsAre("silent", "busy", "waiting", "waiting", "threw", "threw"));
}

TEST(DesyncReport, ReadsTheFlightRecordersOfProcessesThatAreGone) {
  RankTrace waiting;
  waiting.rank = 0;
  waiting.known = true;
  waiting.phase = RankPhase::forward;
  waiting.calls = {{"barrier", "world", 1, true}, {"all_reduce sum of 8 f32", "tp", 5, false}};
  RankTrace busy = waiting;
  busy.rank = 1;
  busy.calls.pop_back();
  RankTrace back = busy;
  back.rank = 2;
  back.end = RankEnd::returned;
  std::vector<RankRecord> ranks = desync_report({waiting, busy, back});
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].state, "waiting");
  EXPECT_EQ(ranks[0].phase, "forward");
  EXPECT_THAT(ranks[0].collectives,
              ElementsAre("barrier, call #1 of 'world', done",
                          "all_reduce sum of 8 f32, call #5 of 'tp', entered"));
  EXPECT_EQ(ranks[1].state, "busy");
  EXPECT_EQ(ranks[2].state, "returned");
  EXPECT_EQ(rank_that_died(ranks), 1);

  RankTrace gone;
  gone.rank = 3;
  ranks = desync_report({waiting, busy, back, gone});
  EXPECT_EQ(ranks[3].state, "silent");
  EXPECT_EQ(ranks[3].phase, "");
  EXPECT_THAT(ranks[3].collectives, IsEmpty());
  EXPECT_EQ(rank_that_died(ranks), -1);  // one of two
  EXPECT_EQ(rank_that_died(desync_report({waiting, back})), -1);
  EXPECT_EQ(rank_that_died({}), -1);
}

}  // namespace
}  // namespace lossgrid
