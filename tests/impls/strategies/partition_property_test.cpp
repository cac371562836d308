// SPDX-License-Identifier: Apache-2.0
// Loss, gradient and every metric are those of the whole batch for any partition of it over
// microbatches and dp ranks, with and without pipeline stages: with unequal counts, empty
// microbatches and dummies. Log-probabilities and, if it is claimed, the gradient have the same
// bits.
#include <algorithm>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "harness/problem/batch/partition.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace {

const char* const kObjectives[] = {
    "",
    "objective.token_level_loss=false ",
    "objective=clipped_pg objective.positive_example_nll_weight=0.1 ",
    "objective=clipped_pg objective.token_level_loss=false "
    "objective.sequence_level_importance_ratios=true "
    "objective.use_importance_sampling_correction=true "
    "objective.truncated_importance_sampling_type=tis "
    "objective.truncated_importance_sampling_ratio=1.2 ",
    "objective=clipped_pg objective.use_importance_sampling_correction=true "
    "objective.truncated_importance_sampling_type=seq-mask-tis "
    "objective.truncated_importance_sampling_ratio=1.1 "
    "objective.truncated_importance_sampling_ratio_min=0.9 ",
    "objective=dpo objective.sft_loss_weight=0.1 objective.sft_average_log_probs=true ",
};

/// Returns the largest distance of two right values of a metric: both within their bounds, which
/// know the size of terms that cancel, but no more than a few roundings if terms do not cancel.
double rounding(const TrialRecord& a, const TrialRecord& b, const std::string& metric) {
  double bounds = 0;
  for (const TrialRecord* record : {&a, &b}) {
    for (const CheckRecord& check : record->checks) {
      if (check.name == metric || check.name == "metric." + metric) bounds += check.bound_abs;
    }
  }
  const double relative = 2e-6 * std::abs(*a.metrics.at(metric)) + 1e-12;
  return metric == "loss" ? std::max(relative, bounds) : relative;
}

bool claims_packing(const TrialRecord& record) {
  return std::any_of(record.determinism.begin(), record.determinism.end(),
                     [](const DeterminismRecord& d) { return d.name == "packing" && d.claimed; });
}

void expect_same_bits(const TrialRecord& parts, const TrialRecord& whole) {
  EXPECT_EQ(parts.fingerprints.at("logprobs"), whole.fingerprints.at("logprobs"));
  if (!claims_packing(whole)) return;
  EXPECT_EQ(parts.fingerprints.at("grad_logits"), whole.fingerprints.at("grad_logits"))
      << parts.reproduce;
}

class AnyPartition : public ::testing::TestWithParam<const char*> {};

TEST_P(AnyPartition, IsTheWholeBatch) {
  const std::vector<Grid> grids{{1, 1, 1},           {1, 1, 3},           {2, 1, 2},
                                {1, 2, 2},           {1, 2, 4},           {1, 1, 1, false, 3},
                                {1, 1, 3, false, 2}, {2, 1, 2, false, 2}, {1, 2, 2, false, 2}};
  const RandomStream random(11, 0);
  const std::uint64_t partitions = kSanitized ? 2 : 12;
  for (std::uint64_t k = 0; k < partitions; ++k) {
    const std::string text =
        fmt::format("{}lens=5+8+1+3+0+9+6+2 sample_mask=11110011 vocab=24 seed={}", GetParam(), k);
    const auto microbatches = static_cast<int>(1 + random.below(5, k));
    const Grid& grid = grids[random.below(static_cast<std::uint32_t>(grids.size()), 100 + k)];
    for (const std::string implementation : {"fused", "cp_local", "per_sequence"}) {
      const TrialRecord whole = run_case(text, implementation, {1, 1});
      const TrialRecord parts =
          run_case(fmt::format("{} microbatches={}", text, microbatches), implementation, grid);
      ASSERT_EQ(whole.status, TrialStatus::passed) << whole.reason;
      ASSERT_EQ(parts.status, TrialStatus::passed) << parts.reason << "\n" << parts.reproduce;
      if (grid.tp == 1) expect_same_bits(parts, whole);
      ASSERT_EQ(parts.metrics.size(), whole.metrics.size());
      for (const auto& [name, value] : whole.metrics) {
        ASSERT_EQ(parts.metrics.at(name).has_value(), value.has_value()) << name;
        if (!value) continue;
        EXPECT_NEAR(*parts.metrics.at(name), *value, rounding(whole, parts, name)) << name;
        if (parts.metric_reductions.at(name) == "count") {
          EXPECT_EQ(parts.metrics.at(name), value);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Objectives, AnyPartition, ::testing::ValuesIn(kObjectives));

/// The partitions above are worth something only if they have empty parts and dummies.
TEST(AnyPartitionOf, EightSequencesHasDummiesAndEmptyPacks) {
  int dummies = 0;
  int empty = 0;
  for (int seed = 0; seed < 12; ++seed) {
    const Problem problem = make_problem(
        parse_case(fmt::format("lens=5+8+1+3+0+9+6+2 vocab=24 microbatches=4 seed={}", seed)));
    for (const auto& of_rank : partition(problem, 4, 2)) {
      for (const MicrobatchPlan& plan : of_rank) {
        dummies += plan.dummy ? 1 : 0;
        empty += plan.sequences.empty() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(dummies, 10);
  EXPECT_GT(empty, 10);
}

TEST(Dummies, AreRejectedIfTheyCount) {
  const TrialRecord record =
      run_case("lens=5+8 vocab=24 microbatches=4", "mutant/dummy_counts", {1, 1});
  EXPECT_EQ(record.status, TrialStatus::failed);
}

}  // namespace
}  // namespace lossgrid
