// SPDX-License-Identifier: Apache-2.0
// Every option of an objective is written out, with its default if it is not given.
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using Expected = std::map<std::string, std::string>;

TEST(AllOptions, AreThoseOfTheDescriptionWithItsValues) {
  for (const ObjectiveEntry* entry : objectives()) {
    Expected described;
    for (const OptionDescription& option : entry->describe({})) {
      described[option.name] = option.fallback;
    }
    EXPECT_EQ(with_all_options({entry->kind, {}}).options, described) << entry->kind;
  }
}

TEST(AllOptions, HaveTheDefaultsOfNllAndDpo) {
  EXPECT_THAT(with_all_options({"nll", {}}).options,
              IsSupersetOf(Expected{{"label_smoothing", "0.0"},
                                    {"loss_type", "\"nll\""},
                                    {"token_level_loss", "true"},
                                    {"z_loss_coefficient", "0.0"}}));
  EXPECT_THAT(with_all_options({"dpo", {{"sft_loss_weight", "0.25"}}}).options,
              IsSupersetOf(Expected{{"discopop_tau", "0.05"},
                                    {"f_alpha_divergence_coef", "0.5"},
                                    {"f_divergence_type", "\"reverse_kl\""},
                                    {"ipo_average_log_probs", "true"},
                                    {"label_smoothing", "0.0"},
                                    {"ld_alpha", "null"},
                                    {"loss_type", "\"sigmoid\""},
                                    {"preference_average_log_probs", "false"},
                                    {"preference_loss_weight", "1.0"},
                                    {"reference_policy_kl_penalty", "0.05"},
                                    {"sft_average_log_probs", "false"},
                                    {"sft_loss_weight", "0.25"},
                                    {"use_weighting", "false"}}));
}

TEST(AllOptions, HaveTheDefaultsOfDistill) {
  const Expected options = with_all_options({"distill", {{"kl_type", "\"jsd\""}}}).options;
  EXPECT_THAT(options, IsSupersetOf(Expected{{"distillation_add_tail", "false"},
                                             {"jsd_beta", "0.5"},
                                             {"kl_type", "\"jsd\""},
                                             {"loss_mode", "null"},
                                             {"mixed_kl_weight", "0.5"},
                                             {"zero_outside_topk", "false"}}));
  EXPECT_THAT(options, Not(Contains(Key("loss_max_clamp"))));
}

TEST(AllOptions, KeepGivenOnesAndNameUnsetOnesOfClippedPg) {
  const std::map<std::string, std::string> options =
      with_all_options({"clipped_pg",
                        {{"ratio_clip_c", "3"},
                         {"kl_input_clamp_value", "null"},
                         {"reference_policy_kl_type", "\"k1\""}}})
          .options;
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
