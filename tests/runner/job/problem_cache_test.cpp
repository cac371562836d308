// SPDX-License-Identifier: Apache-2.0
// Entries that are kept between trials, and entries that are dropped in time.
#include "harness/runner/job/problem_cache.h"

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

TEST(ProblemCache, KeepsTheTruthsOfASmallProblemForFourTpSizes) {
  const PreparedProblem prepared = prepare(make_problem(parse_case("lens=8 vocab=16 hidden=4")));
  const auto of = [&](int serial_adds) {
    return truth_of(prepared, *prepared.problem, serial_adds, {});
  };
  const std::weak_ptr<const Truth> first = of(3);
  const std::shared_ptr<const Truth> second = of(4);
  of(5);
  of(6);
  EXPECT_EQ(of(3), first.lock());
  of(7);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(of(4), second);
}

TEST(ProblemCache, KeepsOneTruthOfALargeProblem) {
  const PreparedProblem prepared =
      prepare(make_problem(parse_case("lens=8 vocab=512 hidden=64 mask=all")));
  const std::weak_ptr<const Truth> first = truth_of(prepared, *prepared.problem, 3, {});
  EXPECT_FALSE(first.expired());
  truth_of(prepared, *prepared.problem, 4, {});
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace lossgrid
