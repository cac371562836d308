// SPDX-License-Identifier: Apache-2.0
// Predicted times of phases against numbers by hand, and their straggler.
#include "harness/planner/model/time_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/planner/model/search.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "planner/model/simple_machine.h"

namespace lossgrid {
namespace {

TimePrediction predicted(const std::string& case_text, const std::string& implementation,
                         const Grid& grid = {}, const Machine& machine = simple_machine()) {
  const TimedPlan plan =
      plan_time(parse_case(case_text), grid, implementation, {machine, machine.transports.front()});
  EXPECT_EQ(plan.row.skipped, "");
  return plan.time.value_or(TimePrediction{});
}

TEST(TimeModel, LogitsByHand) {
  // Logits [9, 64]: 2304 bytes, 576 elements; 8 of 9 rows predict a token.
  const TimePrediction time = predicted("lens=9 vocab=64 mask=all statistics=false", "fused");
  EXPECT_DOUBLE_EQ(time.forward.starts, 0.25);
  EXPECT_DOUBLE_EQ(time.forward.rows, 0.9);
  EXPECT_DOUBLE_EQ(time.forward.memory, 8.0 / 9);
  EXPECT_DOUBLE_EQ(time.forward.exponentials, 0.5);
  EXPECT_DOUBLE_EQ(time.forward.seconds(), 0.25 + 0.9 + 8.0 / 9);
  EXPECT_STREQ(time.forward.bound_by(), "rows");
  // Backward reads 2048 bytes and writes 2304 to another array, 4352 a second.
  EXPECT_DOUBLE_EQ(time.backward.memory, 1);
  EXPECT_DOUBLE_EQ(time.backward.exponentials, 0.5);
  EXPECT_STREQ(time.backward.bound_by(), "memory");
  EXPECT_TRUE(time.collectives.empty());
  EXPECT_DOUBLE_EQ(time.both().seconds(), time.forward.seconds() + time.backward.seconds());
}

TEST(TimeModel, RowsWithoutAValidTargetAreReadByForwardAlone) {
  const std::string rest = " vocab=64 statistics=false";
  const TimePrediction all = predicted("lens=9 mask=all" + rest, "fused");
  const TimePrediction half = predicted("lens=9 mask=000001111" + rest, "fused");
  EXPECT_DOUBLE_EQ(half.forward.memory, all.forward.memory);
  EXPECT_DOUBLE_EQ(half.backward.exponentials, all.backward.exponentials / 2);
  EXPECT_DOUBLE_EQ(half.backward.memory, (2304 + 1024) / 4352.0);
}

TEST(TimeModel, ProductsAndChunksByHand) {
  const std::string text = "lens=9 vocab=64 hidden=16 mask=all statistics=false";
  // 2 T V H = 18432 FLOPs a product: one in forward, three in backward.
  const TimePrediction time = predicted(text, "linear_ce");
  EXPECT_DOUBLE_EQ(time.forward.products, 1);
  EXPECT_DOUBLE_EQ(time.backward.products, 3);
  EXPECT_DOUBLE_EQ(time.forward.starts, 0.5);
  EXPECT_DOUBLE_EQ(time.forward.exponentials, 0.5);
  EXPECT_DOUBLE_EQ(predicted(text, "linear_ce:chunk_tokens=3").forward.starts, 1);
  // One more pass over memory in place of a product.
  EXPECT_LT(predicted(text, "linear_materialized").backward.products, time.backward.products);
}

TEST(TimeModel, OneSweepIsAllForward) {
  const TimePrediction time =
      predicted("lens=9 vocab=64 mask=all statistics=false", "one_sweep:in_place=true");
  EXPECT_EQ(time.backward.seconds(), 0);
  EXPECT_DOUBLE_EQ(time.forward.rows, 2 * 0.9);  // the objective's forward and backward
  EXPECT_DOUBLE_EQ(time.forward.memory, (2048 + 2304) / 1000.0);  // update
  EXPECT_DOUBLE_EQ(time.forward.exponentials, 0.5);               // each exponential once
}

TEST(TimeModel, ExponentialsThatAreKeptHaveARateOfTheirOwn) {
  Machine machine = simple_machine();
  machine.kept_exponentials_per_second = {{DType::f32, 256}};
  const std::string text = "lens=9 vocab=64 mask=all statistics=false";
  EXPECT_DOUBLE_EQ(predicted(text, "one_sweep", {}, machine).forward.exponentials, 2);
  EXPECT_DOUBLE_EQ(predicted(text, "fused", {}, machine).both().exponentials, 1);
}

TEST(TimeModel, MemoryAndExponentialsOverlapAsFarAsTheMachineDoesIt) {
  Machine machine = simple_machine();
  machine.overlap = 0.75;
  const PhaseTime time =
      predicted("lens=9 vocab=64 mask=all statistics=false", "fused", {}, machine).forward;
  // 8/9 s of memory, and half a second of exponentials of which an eighth is not hidden.
  EXPECT_DOUBLE_EQ(time.hidden, 0.375);
  EXPECT_DOUBLE_EQ(time.seconds(), 0.25 + 0.9 + 8.0 / 9 + 0.125);
}

TEST(TimeModel, ASecondPassOverACacheComesAfterTheFirst) {
  // With TP the gradient of a block of [9, 32] follows its merged statistics: 288 elements twice.
  const PhaseTime time =
      predicted("lens=9 vocab=64 mask=all statistics=false", "one_sweep", {.tp = 2}).forward;
  EXPECT_DOUBLE_EQ(time.exponentials, 0.25);
  EXPECT_DOUBLE_EQ(time.cached, 0.25);
  EXPECT_DOUBLE_EQ(time.seconds(), time.starts + time.rows + time.memory + 0.25 + time.collectives);
  EXPECT_GT(time.memory, time.exponentials);
}

TEST(TimeModel, ASecondPassReadsTheCache) {
  Machine machine = simple_machine();
  machine.cache = MemoryRates{100, 2048, 4096, 4096};
  const PhaseTime time =
      predicted("lens=9 vocab=64 mask=all statistics=false", "one_sweep", {.tp = 2}, machine)
          .forward;
  // 8 rows of [9, 32] logits are read again: 1,024 bytes, a quarter of a second of exponentials.
  EXPECT_DOUBLE_EQ(time.cached, 0.25 + 0.5);
}

TEST(TimeModel, CollectivesOfBothAxes) {
  // Eight ranks: TP inside of a node, CP from node to node.
  const TimePrediction time =
      predicted("lens=16 vocab=64 mask=all statistics=false", "fused", {.tp = 4, .cp = 2});
  ASSERT_EQ(time.collectives.size(), 2u);
  const PredictedCollective& tp = time.collectives[0];
  EXPECT_EQ(tp.group, "tp");
  EXPECT_EQ(tp.operation, Collective::all_gather);
  EXPECT_DOUBLE_EQ(tp.seconds, 0.5 + 3 * (8 * 12) / 100.0 + 3 * 2);  // 8 rows of 3 float32
  const PredictedCollective& cp = time.collectives[1];
  EXPECT_EQ(cp.group, "cp");
  EXPECT_DOUBLE_EQ(cp.seconds, 0.5 + (8 * 4) / 10.0 + 8);
  EXPECT_DOUBLE_EQ(time.forward.collectives, tp.seconds + cp.seconds);
  EXPECT_EQ(time.backward.collectives, 0);
}

TEST(TimeModel, TheCpRankWithMostRowsCounts) {
  // Padded to 8 + 8 rows. Of the first sequence rows 0..3 predict, of the second rows 0..6: rank 0
  // has rows 0, 1, 6, 7 of each, rank 1 the others.
  const TimePrediction time =
      predicted("lens=5+8 vocab=24 mask=all statistics=false", "cp_local", {.cp = 2});
  EXPECT_EQ(time.busiest.cp_rank, 1);
  EXPECT_EQ(time.busiest.rows, 6);
  EXPECT_DOUBLE_EQ(time.busiest.mean_rows, 5.5);
  EXPECT_DOUBLE_EQ(time.forward.exponentials, 6 * 24 / 1024.0);
}

TEST(TimeModel, RowsOfAllLayoutsAreCountedWithoutVisitingThem) {
  for (const CpLayoutRules& rules : kCpLayouts) {
    if (rules.layout == CpLayout::dynamic) continue;  // a pack has another one
    for (const int cp : {1, 2, 4}) {
      const Grid grid{.cp = cp, .cp_layout = rules.layout};
      const Problem problem = make_problem(parse_case("lens=5+8+1+30+17 vocab=24 mask=all"));
      const PackedBatch batch = pack(problem, grid);
      const std::vector<std::int32_t> targets = shift_targets(batch).targets;
      const std::vector<std::int64_t> counted = predicting_rows(batch, grid);
      for (int rank = 0; rank < cp; ++rank) {
        std::int64_t rows = 0;
        for (const std::int64_t row : cp_rows(batch, cp, rank)) rows += targets[row] >= 0 ? 1 : 0;
        EXPECT_EQ(counted[static_cast<std::size_t>(rank)], rows) << rules.name << " " << cp;
      }
    }
  }
}

TEST(TimeModel, RanksThatShareADeviceTakeTheTimeOfAll) {
  Machine machine = simple_machine();
  machine.ranks_per_node = 0;
  machine.cores = 4;
  const std::string text = "lens=64 vocab=64 mask=all statistics=false";
  const TimePrediction one = predicted(text, "cp_local", {}, machine);
  const TimePrediction eight = predicted(text, "cp_local", {.tp = 8}, machine);
  EXPECT_DOUBLE_EQ(eight.forward.memory, one.forward.memory);
  EXPECT_DOUBLE_EQ(eight.forward.exponentials, one.forward.exponentials);
  // Every TP rank goes through all rows, with one thread, and two of them take turns on a core.
  EXPECT_DOUBLE_EQ(eight.forward.rows, 2 * one.forward.rows);
}

TEST(TimeModel, SmallCasesStayInTheCache) {
  // Logits and their gradient, and tables of the plan.
  Machine machine = simple_machine();
  machine.cache = MemoryRates{2 * 2304 + 1024, 23040, 43520, 10000};
  const std::string rest = " vocab=64 mask=all statistics=false";
  EXPECT_DOUBLE_EQ(predicted("lens=9" + rest, "fused", {}, machine).backward.memory, 0.1);
  EXPECT_GT(predicted("lens=12" + rest, "fused", {}, machine).backward.memory, 1);
}

TEST(TimeModel, BuffersOfThePlanHaveToFitIntoTheCacheToo) {
  // Each of two ranks has 8 rows of 256 bytes and their gradient; gathered logits are as many
  // again.
  Machine machine = simple_machine();
  machine.cache = MemoryRates{4 * 2048, 23040, 43520, 10000};
  const std::string text = "lens=16 vocab=64 mask=all statistics=false";
  EXPECT_LT(predicted(text, "cp_local", {.cp = 2}, machine).forward.memory, 0.1);
  EXPECT_GT(predicted(text, "cp_gather_logits", {.cp = 2}, machine).forward.memory, 1);
}

TEST(TimeModel, NothingIsPredictedWithoutCosts) {
  const Machine machine = simple_machine();
  for (const char* text : {"lens=9 vocab=64", "lens=9 vocab=64 hidden=8"}) {
    const TimedPlan plan =
        plan_time(parse_case(text), {}, "reference", {machine, machine.transports.front()});
    EXPECT_EQ(plan.row.skipped, "");
    EXPECT_FALSE(plan.time);
  }
}

}  // namespace
}  // namespace lossgrid
