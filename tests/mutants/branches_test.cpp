// SPDX-License-Identifier: Apache-2.0
// Tests that suite ci reaches every branch of every objective, and pipeline stages.
#include <gtest/gtest.h>

#include "suite_branches.h"

namespace lossgrid {
namespace {

TEST(Branches, AllAreReached) {
  const std::map<std::string, double> largest = largest_shares(suite_ci());
  for (const auto& [branch, share] : largest) EXPECT_GT(share, 0) << branch;
  for (const char* branch : {"advantage_zero",
                             "ratio_inside_clip",
                             "ratio_below_clip",
                             "ratio_above_clip",
                             "ratio_below_clip_clipped_active",
                             "ratio_above_clip_clipped_active",
                             "dual_clip_active",
                             "rejection_kept",
                             "rejection_dropped",
                             "sequence_vetoed",
                             "sequence_not_vetoed",
                             "sequence_rejected",
                             "sequence_not_rejected",
                             "sequence_near_behaviour",
                             "sequence_far_from_behaviour",
                             "log_ratio_at_least",
                             "log_ratio_at_most",
                             "kl_importance_truncated",
                             "sapo_positive",
                             "sapo_negative",
                             "geo_mean_zero",
                             "geo_mean_open",
                             "geo_mean_clipped_above",
                             "geo_mean_clipped_below",
                             "sequence_all_clipped",
                             "dppo_kept",
                             "dppo_dropped_above",
                             "dppo_dropped_below",
                             "dppo_ratio_truncated",
                             "sequence_ratio_live",
                             "sequence_ratio_least",
                             "sequence_ratio_largest",
                             "kl_live",
                             "kl_input_clamped",
                             "kl_output_clamped",
                             "kl_weight_not_finite",
                             "is_weight_inside",
                             "is_weight_below",
                             "is_weight_above",
                             "is_weight_not_finite",
                             "sequence_kept",
                             "sequence_masked",
                             "sequence_is_weight_inside",
                             "sequence_is_weight_below",
                             "sequence_is_weight_above",
                             "sequence_is_weight_not_finite",
                             "sequence_without_targets",
                             "generation_lacks",
                             "proximal_without_version",
                             "proximal_not_before",
                             "proximal_between",
                             "proximal_is_generation",
                             "positive_sequence_tokens",
                             "teacher_above",
                             "teacher_below",
                             "distillation_bounded",
                             "divergence_negative",
                             "divergence_inside",
                             "divergence_above_max",
                             "pairs_chosen_preferred",
                             "pairs_rejected_preferred",
                             "pairs_hinge_active",
                             "pairs_hinge_flat",
                             "pairs_ranked_apart",
                             "sequence_alpha_clamped",
                             "pairs_without_odds",
                             "sequence_with_tail",
                             "pairs_desirable",
                             "pairs_undesirable",
                             "pairs_kl_live",
                             "pairs_kl_clamped",
                             "value_inside",
                             "value_at_end",
                             "value_above",
                             "value_below",
                             "value_clipped",
                             "value_not_clipped",
                             "value_tie",
                             "return_between",
                             "huber_linear",
                             "pairs_tied",
                             "pairs_without_score",
                             "pairs_far_apart"}) {
    EXPECT_TRUE(largest.contains(branch)) << branch;
  }
}

TEST(Branches, ASuiteWithoutThemIsSeen) {
  Suite tame = suite_ci();
  std::erase_if(tame.cases, [](const CaseSpec& spec) {
    return spec.objective.kind != "clipped_pg" || spec.objective.options.contains("ratio_clip_c");
  });
  EXPECT_FALSE(largest_shares(tame).contains("dual_clip_active"));
}

TEST(Grids, HaveStagesTogetherWithDpRanksAndMicrobatches) {
  const auto has_both = [](const Grid& grid) { return grid.pp > 1 && grid.dp > 1; };
  EXPECT_TRUE(std::any_of(suite_ci().grids.begin(), suite_ci().grids.end(), has_both));
  const auto is_cut = [](const CaseSpec& spec) { return spec.microbatches > 1; };
  EXPECT_TRUE(std::any_of(suite_ci().cases.begin(), suite_ci().cases.end(), is_cut));
}

/// Selections of tokens stand in suite layouts, of which they are independent.
TEST(Branches, SelectionsReachTheirsInLayouts) {
  const std::map<std::string, double> largest =
      largest_shares(read_suite(LOSSGRID_SOURCE_DIR "/cases/layouts.json"));
  for (const char* branch :
       {"clip_cov_below", "clip_cov_above", "clip_cov_clipped", "clip_cov_dropped",
        "clip_cov_spared", "kl_cov_penalised", "kl_cov_free", "top_entropy_kept",
        "top_entropy_dropped", "second_moment_kept", "second_moment_dropped"}) {
    EXPECT_TRUE(largest.contains(branch) && largest.at(branch) > 0) << branch;
  }
}

}  // namespace
}  // namespace lossgrid
