// SPDX-License-Identifier: Apache-2.0
// Every option of an objective is written out, with its default if it is not given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(AllOptions, HaveTheDefaultsOfNllAndDpo) {
  EXPECT_THAT(with_all_options({"nll", {}}).options,
              ElementsAre(Pair("label_smoothing", "0.0"), Pair("loss_type", "\"nll\""),
                          Pair("token_level_loss", "true"), Pair("z_loss_coefficient", "0.0")));
  EXPECT_THAT(with_all_options({"dpo", {{"sft_loss_weight", "0.25"}}}).options,
              ElementsAre(Pair("discopop_tau", "0.05"), Pair("f_alpha_divergence_coef", "0.5"),
                          Pair("f_divergence_type", "\"reverse_kl\""),
                          Pair("ipo_average_log_probs", "true"), Pair("label_smoothing", "0.0"),
                          Pair("ld_alpha", "null"), Pair("loss_type", "\"sigmoid\""),
                          Pair("preference_average_log_probs", "false"),
                          Pair("preference_loss_weight", "1.0"),
                          Pair("reference_policy_kl_penalty", "0.05"),
                          Pair("sft_average_log_probs", "false"), Pair("sft_loss_weight", "0.25"),
                          Pair("use_weighting", "false")));
}

TEST(AllOptions, HaveTheDefaultsOfDistill) {
  EXPECT_THAT(with_all_options({"distill", {{"kl_type", "\"jsd\""}}}).options,
              ElementsAre(Pair("distillation_add_tail", "false"), Pair("jsd_beta", "0.5"),
                          Pair("kl_type", "\"jsd\""), Pair("loss_mode", "null"),
                          Pair("mixed_kl_weight", "0.5"), Pair("zero_outside_topk", "false")));
}

TEST(AllOptions, KeepGivenOnesAndNameUnsetOnesOfClippedPg) {
  const std::map<std::string, std::string> options =
      with_all_options({"clipped_pg",
                        {{"ratio_clip_c", "3"},
                         {"kl_input_clamp_value", "null"},
                         {"reference_policy_kl_type", "\"k1\""}}})
          .options;
  EXPECT_EQ(options.size(), 57u);
  EXPECT_EQ(options.at("ratio_clip_c"), "3.0");
  EXPECT_EQ(options.at("kl_input_clamp_value"), "null");
  EXPECT_EQ(options.at("kl_output_clamp_value"), "10.0");
  EXPECT_EQ(options.at("reference_policy_kl_type"), "\"k1\"");
  EXPECT_EQ(options.at("truncated_importance_sampling_type"), "null");
  EXPECT_EQ(options.at("ratio_clip_min"), "0.2");
  EXPECT_EQ(options.at("use_cispo"), "false");
}

TEST(AllOptions, MakeTheSameObjectiveAndAreAllOptionsAgain) {
  for (const ObjectiveEntry* entry : objectives()) {
    const ObjectiveSpec all = with_all_options({entry->kind, {}});
    EXPECT_FALSE(all.options.empty()) << entry->kind;
    EXPECT_EQ(with_all_options(all), all);
    EXPECT_NO_THROW(make_objective(all, true));
    for (const auto& [option, value] : all.options) {
      // Each is one that the objective knows, alone.
      EXPECT_NO_THROW(entry->make({{option, value}})) << entry->kind << " " << option;
    }
  }
}

TEST(AllOptions, AreRefusedAsByTheObjective) {
  EXPECT_THROW(with_all_options({"nll", {{"token_level_los", "true"}}}), Error);
  EXPECT_THROW(with_all_options({"clipped_pg", {{"ratio_clip_min", "2"}}}), Error);
  EXPECT_THROW(with_all_options({"none", {}}), Error);
}

}  // namespace
}  // namespace lossgrid
