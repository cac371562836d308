// SPDX-License-Identifier: Apache-2.0
// Bytes that a trial is predicted to need before anything is allocated, worked out by hand.
#include "harness/planner/plan/memory_plan.h"

#include <gtest/gtest.h>

#include "harness/core/process/available_memory.h"
#include "harness/loss/registry.h"
#include "harness/measure/cache.h"
#include "harness/runner/timing/timing_rank.h"

namespace lossgrid {
namespace {

class NeedsAThousandBytes final : public LossImplementation {
 public:
  ImplementationTraits describe() const override { return {}; }
  Cost cost(const LossProblem& /*problem*/) const override {
    Cost cost;
    cost.plan.workspace_bytes = 400;
    cost.forward.workspace_bytes = 1000;
    cost.backward.workspace_bytes = 900;
    return cost;
  }
  std::unique_ptr<LossPlan> plan(const LossProblem& /*problem*/,
                                 RankContext /*context*/) const override {
    return nullptr;
  }
};

class RunsInAWorker final : public LossImplementation {
 public:
  ImplementationTraits describe() const override {
    ImplementationTraits traits;
    traits.is_external = true;
    return traits;
  }
  Cost cost(const LossProblem& /*problem*/) const override { return {}; }
  std::unique_ptr<LossPlan> plan(const LossProblem& /*problem*/,
                                 RankContext /*context*/) const override {
    return nullptr;
  }
};

/// A rank with 24 rows and 26 ids in float32.
std::int64_t bytes_of(const Grid& grid, std::int64_t hidden) {
  PackedBatch batch;
  batch.cu_seqlens = batch.cu_seqlens_padded = {0, 24};
  const ObjectiveSpec spec;
  const auto objective = make_objective(spec, false);
  const LossProblem problem{batch, 26, DType::f32, grid, *objective, spec, {hidden}};
  return trial_rank_bytes(problem, NeedsAThousandBytes());
}

// Host bytes of every rank: 80 for a row and 16 for an id, whatever the grid.
constexpr std::int64_t kHost = 80 * 24 + 16 * 26;

TEST(TrialMemory, HoldsLogitsTwice) {
  EXPECT_EQ(bytes_of({1, 1}, 0), 2 * 24 * 26 * 4 + 1000 + kHost);
  EXPECT_EQ(bytes_of({2, 2}, 0), 2 * 12 * 13 * 4 + 1000 + kHost);
}

TEST(TrialMemory, HoldsWeightsAndTheirGradientForHiddenStates) {
  // 12 rows of hidden states and 13 of the weight with their gradients; that of the weight once
  // more between packs, and in float64 with its initial value.
  const std::int64_t hidden = 12 * 6 * 4;
  const std::int64_t weight = 13 * 6 * 4;
  const std::int64_t copies = 13 * 6 * (4 + 2 * 8);
  EXPECT_EQ(bytes_of({2, 2}, 6), 2 * hidden + 2 * weight + copies + 1000 + kHost);
  // Sequence parallelism halves the hidden states alone.
  EXPECT_EQ(bytes_of({2, 2, 1, true}, 6), hidden + 2 * weight + copies + 1000 + kHost);
}

TEST(FullestDevice, HasTheRanksThatAreDealtToItInTurn) {
  const std::vector<std::int64_t> ranks{10, 20, 30, 40, 50};
  EXPECT_EQ(fullest_device_bytes(ranks, 1), 150);
  EXPECT_EQ(fullest_device_bytes(ranks, 2), 10 + 30 + 50);
  EXPECT_EQ(fullest_device_bytes(ranks, 3), 20 + 50);
  EXPECT_EQ(fullest_device_bytes(ranks, 5), 50);
  EXPECT_EQ(fullest_device_bytes(ranks, 8), 50);
  EXPECT_EQ(fullest_device_bytes({0, 0, 7, 9}, 2), 9);  // pipeline: only the last stage holds packs
  EXPECT_EQ(fullest_device_bytes({}, 2), 0);
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  EXPECT_EQ(fullest_device_bytes({kMost, kMost, kMost}, 1), kMost);
}

TEST(FullestDevice, OnTheProcessorIsTheMachine) {
  const std::int64_t half = available_memory_bytes() / 2;
  EXPECT_FALSE(memory_shortage(Backend::cpu, {{half / 4, half / 4}}, false));
  const auto reason = memory_shortage(Backend::cuda_emulated, {{2 * half, 2 * half}}, false);
  EXPECT_TRUE(text_of(reason).starts_with("not enough memory: needs "));
}

TEST(TimingMemory, HoldsCacheAndSumsOnAGpuAndOneTensorOnTheHost) {
  PackedBatch batch;
  batch.cu_seqlens = batch.cu_seqlens_padded = {0, 24};
  const ObjectiveSpec spec;
  const auto objective = make_objective(spec, false);
  const LossProblem problem{.batch = batch,
                            .vocab = 26,
                            .dtype = DType::f32,
                            .grid = {1, 1},
                            .objective = *objective,
                            .objective_spec = spec,
                            .backend = Backend::cuda_emulated};
  const std::int64_t tensor = 24 * 26 * 4;
  const std::int64_t tokens = 24 * problem.token_columns() * 4;
  TimingPlan plan;
  EXPECT_EQ(timing_memory_bytes(problem, plan), 2 * tensor + kHost + tokens + 4);
  plan.cache = CacheMode::cold;
  EXPECT_EQ(timing_memory_bytes(problem, plan),
            2 * tensor + kHost + tokens + 4 + cache_walk_bytes(Backend::cuda_emulated));
  plan.setups.emplace_back().implementation = std::make_shared<RunsInAWorker>();
  EXPECT_EQ(timing_memory_bytes(problem, plan),
            2 * tensor + kHost + tokens + 4 + 2 * cache_walk_bytes(Backend::cuda_emulated));
  EXPECT_EQ(timing_host_bytes(problem), tensor + kHost + tokens);
}

TEST(BundleMemory, HoldsTheFileTwiceAndTheTruthBesides) {
  const CaseSpec logits = parse_case("lens=8192 vocab=131072 dtype=bf16");
  const std::int64_t elements = std::int64_t{8192} * 131072;
  EXPECT_EQ(bundle_memory_bytes(logits, false), case_memory_bytes(logits) + 2 * elements * 2);
  EXPECT_EQ(bundle_memory_bytes(logits, true) - bundle_memory_bytes(logits, false),
            3 * elements * 8);
  const CaseSpec hidden = parse_case("lens=5+3 vocab=24 hidden=4");
  EXPECT_EQ(bundle_memory_bytes(hidden, true),
            case_memory_bytes(hidden) + 2 * 32 * 4 * 4 + 8 * 32 * 4 * 8);
  EXPECT_EQ(bundle_memory_bytes(parse_case("lens=2147483647 vocab=2147483647"), true),
            std::int64_t{1} << 62);
}

}  // namespace
}  // namespace lossgrid
