// SPDX-License-Identifier: Apache-2.0
// Tests that a hunt finds wrong implementations, makes their cases small and puts them together by
// cause, and finds nothing wrong in right ones.
#include "harness/hunt/hunt.h"

#include <set>

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {
namespace {

HuntOutcome hunted(HuntOptions options) {
  Hunt hunt(std::move(options), [](const HuntProgress&) {});
  while (hunt.next()) {
  }
  return hunt.outcome();
}

HuntOptions options_for(const std::string& implementation, std::int64_t cases) {
  HuntOptions options;
  options.seed = 11;
  options.cases = cases;
  if (!implementation.empty()) options.implementations = {implementation};
  return options;
}

TEST(Hunt, FindsNothingInRightImplementations) {
  const HuntOutcome outcome = hunted(options_for("", 60));
  EXPECT_EQ(outcome.record.bad, 0) << outcome.record.found.front().reproduce;
  EXPECT_GT(outcome.record.passed, 100);
  EXPECT_LT(outcome.record.refused, 6);
  EXPECT_EQ(outcome.record.end, "cases");
  EXPECT_EQ(outcome.record.drawn.size(), 60u);
}

TEST(Hunt, DrawsTheSameForTheSameSeed) {
  const HuntOutcome one = hunted(options_for("fused", 20));
  const HuntOutcome other = hunted(options_for("fused", 20));
  for (std::size_t k = 0; k < one.record.drawn.size(); ++k) {
    EXPECT_EQ(one.record.drawn[k].case_text, other.record.drawn[k].case_text);
    EXPECT_EQ(one.record.drawn[k].grids, other.record.drawn[k].grids);
  }
  HuntOptions options = options_for("fused", 20);
  options.seed = 12;
  EXPECT_NE(hunted(options).record.drawn.front().case_text, one.record.drawn.front().case_text);
}

TEST(Hunt, MakesTheCaseOfAMistakeSmall) {
  HuntOptions options = options_for("mutant/gradient_times_cp", 200);
  options.until_failure = true;
  options.limits.objectives = {"nll"};
  const HuntOutcome outcome = hunted(options);
  ASSERT_EQ(outcome.record.found.size(), 1u);
  const FoundRecord& found = outcome.record.found.front();
  EXPECT_EQ(outcome.record.end, "failure");
  EXPECT_EQ(found.check, "grad_logits");
  EXPECT_EQ(found.grids, std::vector<std::string>{"tp1cp2"});
  const Problem problem = make_problem(parse_case(found.smallest));
  EXPECT_LE(problem.tokens(), 4) << found.smallest;
  EXPECT_LE(problem.spec.vocab, 2) << found.smallest;
  ASSERT_EQ(outcome.bad_trials.size(), 1u);
  EXPECT_EQ(outcome.bad_trials.front().status, TrialStatus::failed);
}

TEST(Hunt, PutsTrialsOfOneCauseTogether) {
  HuntOptions options = options_for("mutant/gradient_times_cp", 60);
  options.limits.objectives = {"nll"};
  options.limits.from_hidden = false;
  const HuntOutcome outcome = hunted(options);
  EXPECT_GT(outcome.record.bad, 10);
  EXPECT_LE(outcome.record.found.size(), 3u);
}

TEST(Hunt, CountsPairsThatDecide) {
  const HuntOutcome outcome = hunted(options_for("fused", 80));
  std::int64_t drawn = 0;
  std::int64_t decided = 0;
  for (const PairsRecord& pairs : outcome.record.pairs) {
    EXPECT_LE(pairs.decided, pairs.drawn);
    drawn += pairs.drawn;
    decided += pairs.decided;
  }
  EXPECT_GT(drawn, 500);
  EXPECT_LT(decided, drawn);
  EXPECT_GT(decided, drawn / 2);
}

TEST(Hunt, RefusesAnUnknownName) {
  EXPECT_THROW(hunted(options_for("fusedd", 1)), Error);
  HuntOptions options = options_for("fused", 1);
  options.limits.objectives = {"no_such"};
  EXPECT_THROW(hunted(options), Error);
}

}  // namespace
}  // namespace lossgrid
