// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/comm/thread/thread_communicator.h"
#include "harness/core/error.h"
#include "harness/problem/batch/partition.h"

namespace lossgrid {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

Problem problem_of(const std::string& text) {
  return make_problem(parse_case(text));
}

TEST(PackShape, IsThatOfThePack) {
  const Problem whole = problem_of("lens=5+8+1+3+0+9 vocab=16 microbatches=4 bin_multiple=16");
  const auto plans = partition(whole, 1, 1);
  for (const Grid& grid : {Grid{}, Grid{1, 2}, Grid{2, 2, 1, true}}) {
    for (const MicrobatchPlan& plan : plans[0]) {
      const Problem part = take_part(whole, plan, 4, 1);
      const PackShape shape = shape_of(part, grid);
      EXPECT_EQ(shape.padded_tokens, pack(part, grid).padded_tokens());
      EXPECT_EQ(shape.sequences, part.sequences());
      EXPECT_EQ(shape.dummy, plan.dummy);
    }
  }
}

TEST(AnnounceShape, StagesThatHaveTheSamePackGoOn) {
  CollectiveCounts counts;
  const RanksOutcome outcome = run_thread_ranks(
      3,
      [&](Communicator& pp) {
        CollectiveCounts own;
        const auto counted = count_calls(pp, own);
        announce_shape({24, 3, false}, 0, *counted);
        announce_shape({8, 1, true}, 1, *counted);
        announce_shape({}, 2, *counted);
        if (pp.rank() == 1) counts = own;
      },
      seconds(10));
  EXPECT_TRUE(outcome.all_ok());
  EXPECT_EQ(counts[Collective::broadcast], (CollectiveCount{3, 3 * 24}));
  EXPECT_EQ(counts.total(), counts[Collective::broadcast]);
}

TEST(AnnounceShape, AStageWithAnotherPackFailsTheRun) {
  const PackShape others[] = {{32, 3, false}, {24, 4, false}, {24, 3, true}};
  for (const PackShape& other : others) {
    const RanksOutcome outcome = run_thread_ranks(
        3,
        [&](Communicator& pp) {
          announce_shape(pp.rank() == 2 ? other : PackShape{24, 3, false}, 5, pp);
          pp.barrier();
        },
        seconds(10));
    EXPECT_EQ(outcome.first_failed_rank, 2);
    EXPECT_EQ(outcome.ranks[2].code, ErrorCode::internal);
    EXPECT_THAT(outcome.ranks[2].message,
                HasSubstr("microbatch 5: the first stage announces 24 rows of 3 sequences, stage "
                          "2 has "));
    EXPECT_EQ(outcome.ranks[0].code, ErrorCode::aborted);
  }
}

ObjectiveResult some_result() {
  return {0.125,
          {{"count", {Reduction::count, 3, 1}},
           {"least", {Reduction::min, -7, 2}},
           {"none", {Reduction::mean, 0, 0}}}};
}

TEST(ShareResult, EveryStageGetsThatOfTheLast) {
  for (const int stages : {1, 2, 4}) {
    std::vector<ObjectiveResult> results(static_cast<std::size_t>(stages));
    results[0] = {99, {{"left over", {}}}};
    results.back() = some_result();
    std::vector<CollectiveCounts> counts(results.size());
    const RanksOutcome outcome = run_thread_ranks(
        stages,
        [&](Communicator& pp) {
          const auto rank = static_cast<std::size_t>(pp.rank());
          const auto counted = count_calls(pp, counts[rank]);
          for (int m = 0; m < 5; ++m) announce_shape({}, m, *counted);
          share_result(results[rank], *counted);
        },
        seconds(10));
    EXPECT_TRUE(outcome.all_ok());
    for (std::size_t stage = 0; stage < results.size(); ++stage) {
      EXPECT_EQ(results[stage].loss, 0.125) << stage;
      EXPECT_EQ(results[stage].metrics, some_result().metrics) << stage;
      const CollectiveCounts predicted =
          stages == 1 ? CollectiveCounts() : pipeline_cost(5, some_result());
      EXPECT_EQ(counts[stage][Collective::broadcast], predicted[Collective::broadcast]);
    }
  }
}

TEST(PipelineCost, IsThreeNumbersAPackAndTheResult) {
  // The loss and the number of metrics; of each the length of its name, its name, how it joins, and
  // two numbers.
  const std::int64_t result_bytes = 8 + 8 + 3 * (8 + 4 + 8 + 8) + (5 + 5 + 4);
  EXPECT_EQ(pipeline_cost(5, some_result())[Collective::broadcast],
            (CollectiveCount{5 + 2, 5 * 24 + 8 + result_bytes}));
}

}  // namespace
}  // namespace lossgrid
