// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/global_batch.h"

#include <cmath>

#include <gtest/gtest.h>

#include "harness/comm/thread/thread_communicator.h"

namespace lossgrid {
namespace {

/// Returns the result of every dp rank after the exchange of `results`.
std::vector<ObjectiveResult> reduced(std::vector<ObjectiveResult> results) {
  const RanksOutcome outcome = run_thread_ranks(
      static_cast<int>(results.size()),
      [&](Communicator& dp) { reduce_result(results[static_cast<std::size_t>(dp.rank())], dp); },
      std::chrono::seconds(10));
  EXPECT_TRUE(outcome.all_ok());
  return results;
}

ObjectiveResult result_of(double loss, Metric metric) {
  return {loss, {{"m", metric}}};
}

TEST(ReduceResult, JoinsEveryMetricByItsRule) {
  struct Example {
    Metric a;
    Metric b;
    double joined;
  };
  const Example examples[] = {
      {{Reduction::count, 3, 1}, {Reduction::count, 4, 1}, 7},
      {{Reduction::sum, 0.25, 1}, {Reduction::sum, 0.5, 1}, 0.75},
      {{Reduction::mean, 6, 2}, {Reduction::mean, 1, 2}, 1.75},
      {{Reduction::min, 5, 2}, {Reduction::min, -1, 1}, -1},
      {{Reduction::max, 5, 2}, {Reduction::max, -1, 1}, 5},
      {{Reduction::global, 16777217, 1}, {Reduction::global, 16777217, 1}, 16777217}};
  for (const Example& example : examples) {
    for (const ObjectiveResult& result :
         reduced({result_of(1, example.a), result_of(2, example.b)})) {
      EXPECT_EQ(result.loss, 3);
      EXPECT_EQ(result.metrics.at("m").value(), example.joined) << name(example.a.reduction);
      EXPECT_EQ(result.metrics.at("m").reduction, example.a.reduction);
    }
  }
}

TEST(ReduceResult, ARankWithoutElementsChangesNothing) {
  for (const Reduction reduction : {Reduction::min, Reduction::max, Reduction::mean}) {
    const Metric some{reduction, -3, 1};
    const Metric none{reduction, 0, 0};
    EXPECT_EQ(reduced({result_of(0, some), result_of(0, none)})[1].metrics.at("m").value(), -3);
    EXPECT_FALSE(
        reduced({result_of(0, none), result_of(0, none)})[0].metrics.at("m").value().has_value());
  }
}

TEST(ReduceResult, RanksThatDisagreeOnAGlobalNumberGetNone) {
  const auto results = reduced({result_of(0, {Reduction::global, 16777216, 1}),
                                result_of(0, {Reduction::global, 16777217, 1})});
  EXPECT_TRUE(std::isnan(*results[0].metrics.at("m").value()));
}

Problem problem_of(std::vector<std::uint8_t> token_mask, std::vector<float> rewards) {
  Problem problem;
  problem.lengths = {3, 2};
  problem.cu_seqlens = {0, 3, 5};
  problem.input_ids.assign(5, 0);
  problem.token_mask = std::move(token_mask);
  problem.sample_mask = {1, 1};
  problem.rewards = std::move(rewards);
  return problem;
}

/// The global batch as every rank counts it, and the calls of rank 0.
struct CountedBatch {
  std::vector<GlobalCounts> by_rank;
  CollectiveCounts calls;
};

/// `parts`: those of each rank.
CountedBatch count_on_ranks(const std::vector<std::vector<TrialPart>>& parts,
                            const Problem& whole) {
  CountedBatch counted{std::vector<GlobalCounts>(parts.size()), {}};
  const RanksOutcome outcome = run_thread_ranks(
      static_cast<int>(parts.size()),
      [&](Communicator& world) {
        CollectiveCounts own;
        const auto dp = count_calls(world, own);
        const auto rank = static_cast<std::size_t>(world.rank());
        counted.by_rank[rank] = count_global_batch(parts[rank], whole, *dp);
        if (rank == 0) counted.calls = own;
      },
      std::chrono::seconds(10));
  EXPECT_TRUE(outcome.all_ok());
  return counted;
}

TEST(CountDenominators, AddsUpOverMicrobatchesAndDpRanks) {
  const Problem whole = problem_of({1, 1, 1, 1, 1}, {1.0f, -1.0f});
  const auto first = std::make_shared<const Problem>(problem_of({1, 1, 1, 1, 1}, {1.0f, -1.0f}));
  const auto second = std::make_shared<const Problem>(problem_of({1, 0, 1, 1, 0}, {-1.0f, 2.0f}));
  const std::vector<std::vector<TrialPart>> parts{{{first, nullptr}, {second, nullptr}},
                                                  {{second, nullptr}}};
  const CountedBatch batch = count_on_ranks(parts, whole);
  // first: 3 valid tokens, 2 of them of the rewarded sequence; second: 1, of the other sequence.
  EXPECT_EQ(batch.by_rank[0].denominators, (Denominators{5, 6, 2}));
  EXPECT_EQ(batch.by_rank[1].denominators, batch.by_rank[0].denominators);
  EXPECT_EQ(batch.calls[Collective::all_reduce], (CollectiveCount{1, 24}));
}

TEST(CountDenominators, AddsUpSequencesWhereTheyAreNeeded) {
  Problem whole = problem_of({1, 1, 1, 1, 1}, {});
  whole.denominators.all_sequences = 4;  // as if an objective needed them
  const auto first = std::make_shared<const Problem>(problem_of({1, 1, 1, 1, 1}, {}));
  // Its second sequence has no target but the first token, which is none.
  const auto second = std::make_shared<const Problem>(problem_of({1, 0, 1, 1, 0}, {}));
  Problem copy = problem_of({1, 1, 1, 1, 1}, {});
  copy.sample_mask = {0, 0};
  copy.microbatch.dummy = true;
  const auto dummy = std::make_shared<const Problem>(std::move(copy));
  const auto counted = [&](Problem of_whole) {
    const std::vector<std::vector<TrialPart>> parts{{{first, nullptr}, {dummy, nullptr}},
                                                    {{second, nullptr}}};
    const std::vector<GlobalCounts> counts = count_on_ranks(parts, of_whole).by_rank;
    EXPECT_EQ(counts[1].denominators, counts[0].denominators);
    return counts[0].denominators;
  };
  EXPECT_EQ(counted(whole), (Denominators{4, 4, 0, 3, 4}));
  whole.spec.global_valid_seqs = 9;
  EXPECT_EQ(counted(whole), (Denominators{4, 9, 0, 9, 9}));
}

TEST(CountDenominators, AddsUpGroupsThatRanksShare) {
  // Four sequences in groups of three: one group has three of them, the other one has the last.
  Problem whole = problem_of({1, 1, 1, 1, 1}, {});
  whole.lengths = {3, 2, 3, 2};
  whole.group_count = 2;
  const auto part = [&](std::vector<std::int64_t> sequences, std::vector<std::uint8_t> mask) {
    Problem problem = problem_of(std::move(mask), {});
    for (const std::int64_t i : sequences) problem.groups.push_back(i / 3);
    problem.group_count = 2;
    return std::make_shared<const Problem>(std::move(problem));
  };
  const std::vector<std::vector<TrialPart>> parts{{{part({0, 1}, {1, 1, 1, 1, 1}), nullptr}},
                                                  {{part({2, 3}, {1, 0, 1, 1, 0}), nullptr}}};
  const auto [counts, calls] = count_on_ranks(parts, whole);
  EXPECT_EQ(counts[0].tokens_of_groups, (std::vector<std::int64_t>{4, 0}));
  EXPECT_EQ(counts[1].tokens_of_groups, counts[0].tokens_of_groups);
  EXPECT_EQ(counts[0].denominators.all_groups, 2);
  EXPECT_EQ(counts[0].denominators.trained_groups, 1);
  EXPECT_EQ(calls[Collective::all_reduce], (CollectiveCount{1, 8 * 7}));
  EXPECT_EQ(batch_cost(whole, {}, {})[Collective::all_reduce].payload_bytes, 8 * 7 + 8);
  PackedBatch batch;
  batch.group_tokens = {0, 0};
  counts[0].give_to(*parts[1][0].problem, batch);
  EXPECT_EQ(batch.group_tokens, (std::vector<std::int64_t>{4, 0}));
}

TEST(CountDenominators, KeepsTheStatedSizeOfTheGlobalBatch) {
  Problem whole = problem_of({1, 1, 1, 1, 1}, {});
  whole.spec.global_valid_toks = 16777217;
  const auto part = std::make_shared<const Problem>(whole);
  const std::vector<TrialPart> parts{{part, nullptr}};
  const RanksOutcome outcome = run_thread_ranks(
      1,
      [&](Communicator& dp) {
        EXPECT_EQ(count_global_batch(parts, whole, dp).denominators,
                  (Denominators{16777217, 2, 0}));
      },
      std::chrono::seconds(10));
  EXPECT_TRUE(outcome.all_ok());
}

}  // namespace
}  // namespace lossgrid
