// SPDX-License-Identifier: Apache-2.0
// Entries that are kept between trials, and entries that are dropped in time.
#include "harness/runner/problem_cache.h"

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(ProblemCache, MakesACaseOnce) {
  ProblemCache cache;
  const CaseSpec small = parse_case("lens=8 vocab=16 hidden=4");
  const std::weak_ptr<const Problem> first = cache.get(small).problem;
  cache.get(parse_case("lens=8 vocab=17"));
  EXPECT_EQ(cache.get(small).problem, first.lock());
}

TEST(ProblemCache, GivesUpLargeHiddenStatesAndWeightsForTheNextCase) {
  ProblemCache cache;
  const CaseSpec large = parse_case("lens=4 vocab=2048 hidden=128 mask=all");  // 2^18 and 4 rows
  const CaseSpec small = parse_case("lens=4 vocab=2040 hidden=128 mask=all");
  const std::weak_ptr<const Problem> kept = cache.get(small).problem;
  const std::weak_ptr<const Problem> given_up = cache.get(large).problem;
  const std::weak_ptr<const Truth> its_truth =
      truth_of(cache.get(large), *cache.get(large).problem, 0, {});
  EXPECT_FALSE(its_truth.expired());
  cache.get(small);  // is there already
  EXPECT_FALSE(given_up.expired());
  cache.get(parse_case("lens=8 vocab=16"));
  EXPECT_TRUE(given_up.expired());
  EXPECT_TRUE(its_truth.expired());
  EXPECT_FALSE(kept.expired());
}

TEST(ProblemCache, SharesTheTruthBetweenTrialsThatAskForTheSame) {
  const PreparedProblem prepared = prepare(make_problem(parse_case("lens=8 vocab=16 hidden=4")));
  const std::shared_ptr<const Truth> truth = truth_of(prepared, *prepared.problem, 3, {});
  EXPECT_EQ(truth_of(prepared, *prepared.problem, 3, {}), truth);
  // Longer add chains allow more.
  const std::shared_ptr<const Truth> longer = truth_of(prepared, *prepared.problem, 1000, {});
  EXPECT_NE(longer, truth);
  EXPECT_GT(longer->objective.loss.radius(), truth->objective.loss.radius());
  EXPECT_EQ(truth_of(prepared, *prepared.problem, 3, {})->objective.loss.radius(),
            truth->objective.loss.radius());
}

}  // namespace
}  // namespace lossgrid
