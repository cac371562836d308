// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

#include <vector>

#include <gtest/gtest.h>

#include "../problem/expect_error.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

using Options = ObjectiveOptions;

TEST(ClippedPgOptions, HaveTheirDefaults) {
  const ClippedPgOptions o = ClippedPgOptions::from({});
  EXPECT_TRUE(o.token_level_loss);
  EXPECT_EQ(o.ratio_clip_min, 0.2);
  EXPECT_EQ(o.ratio_clip_max, 0.2);
  EXPECT_EQ(o.ratio_clip_c, std::nullopt);
  EXPECT_FALSE(o.disable_ppo_ratio || o.force_on_policy_ratio || o.use_cispo);
  EXPECT_FALSE(o.sequence_level_importance_ratios);
  EXPECT_EQ(o.reference_policy_kl_penalty, 0.01);
  EXPECT_EQ(o.reference_policy_kl_type, KlType::k3);
  EXPECT_EQ(o.kl_input_clamp_value, 20);
  EXPECT_EQ(o.kl_output_clamp_value, 10);
  EXPECT_FALSE(o.use_kl_in_reward || o.use_on_policy_kl_approximation);
  EXPECT_FALSE(o.use_importance_sampling_correction);
  EXPECT_EQ(o.truncated_importance_sampling_type, Truncation::none);
  EXPECT_EQ(o.truncated_importance_sampling_ratio, std::nullopt);
  EXPECT_EQ(o.truncated_importance_sampling_ratio_min, std::nullopt);
  EXPECT_EQ(o.positive_example_nll_weight, 0);
  EXPECT_EQ(o.loss_agg_mode, std::nullopt);
  EXPECT_EQ(o.rollout_is, std::nullopt);
  EXPECT_EQ(o.rejection_level, RejectionLevel::none);
  EXPECT_EQ(o.rollout_rs_threshold, std::nullopt);
  EXPECT_EQ(o.rollout_rs_threshold_min, std::nullopt);
  EXPECT_EQ(o.veto_ratio_min, std::nullopt);
  EXPECT_EQ(o.veto_ratio_max, std::nullopt);
  EXPECT_EQ(o.off_policy_mask_threshold, std::nullopt);
  EXPECT_FALSE(o.token_masks_first);
  EXPECT_EQ(o.cispo_bounds, CispoBounds::offset);
  EXPECT_FALSE(o.gspo_token);
  EXPECT_EQ(o.log_ratio_min, std::nullopt);
  EXPECT_EQ(o.log_ratio_max, std::nullopt);
  EXPECT_EQ(o.kl_gradient, KlGradient::score);
  EXPECT_EQ(o.policy_loss, PolicyLoss::ppo);
  EXPECT_EQ(o.tau_pos, 1.0);
  EXPECT_EQ(o.tau_neg, 1.05);
  EXPECT_EQ(o.dro_beta, std::nullopt);
  EXPECT_EQ(o.vespo_k_pos, 2);
  EXPECT_EQ(o.vespo_lambda_pos, 3);
  EXPECT_EQ(o.vespo_k_neg, 3);
  EXPECT_EQ(o.vespo_lambda_neg, 2);
  EXPECT_EQ(o.loss_scale_factor, std::nullopt);
  EXPECT_FALSE(o.count_masked_sequences);
  EXPECT_EQ(o.prompt_group_size, std::nullopt);
  EXPECT_FALSE(o.rollout_is_batch_normalize);
  EXPECT_EQ(o.nonfinite_generation_logprobs, NonfiniteGeneration::refuse);
}

TEST(ClippedPgOptions, AggregationsAreThoseOfVerl) {
  const auto of = [](const char* mode, const Options& more = {}) {
    Options options{{"loss_agg_mode", mode}};
    options.insert(more.begin(), more.end());
    return ClippedPgOptions::from(options).aggregation();
  };
  const auto mode_of = [&](const char* mode) { return of(mode).mode; };
  EXPECT_EQ(mode_of("\"token-mean\""), AggregationMode::token_mean);
  EXPECT_EQ(mode_of("\"token-sum\""), AggregationMode::token_sum);
  EXPECT_EQ(mode_of("\"seq-mean-token-mean\""), AggregationMode::sequence_mean_token_mean);
  EXPECT_EQ(mode_of("\"seq-mean-token-sum\""), AggregationMode::sequence_mean_token_sum);
  const Aggregation norm = of("\"seq-mean-token-sum-norm\"", {{"loss_scale_factor", "64"}});
  EXPECT_EQ(norm.mode, AggregationMode::sequence_mean_token_sum_norm);
  EXPECT_EQ(norm.scale_factor, 64);
  EXPECT_EQ(norm.counted, CountedSequences::trained);
  EXPECT_EQ(of("\"seq-mean-token-sum\"", {{"count_masked_sequences", "true"}}).counted,
            CountedSequences::all);
  EXPECT_EQ(of("null", {{"token_level_loss", "false"}}).counted, CountedSequences::by_sample_mask);
  EXPECT_EQ(of("null").mode, AggregationMode::token_mean);
  EXPECT_EQ(of("null", {{"token_level_loss", "false"}}).mode,
            AggregationMode::sequence_mean_token_mean);
}

TEST(ClippedPgOptions, EveryOptionIsRead) {
  const ClippedPgOptions o =
      ClippedPgOptions::from({{"token_level_loss", "false"},
                              {"ratio_clip_min", "0.1"},
                              {"ratio_clip_max", "0.3"},
                              {"ratio_clip_c", "3"},
                              {"disable_ppo_ratio", "true"},
                              {"force_on_policy_ratio", "true"},
                              {"use_cispo", "false"},
                              {"sequence_level_importance_ratios", "true"},
                              {"reference_policy_kl_penalty", "0.5"},
                              {"reference_policy_kl_type", "\"k2\""},
                              {"kl_input_clamp_value", "null"},
                              {"kl_output_clamp_value", "5"},
                              {"use_kl_in_reward", "true"},
                              {"use_on_policy_kl_approximation", "true"},
                              {"use_importance_sampling_correction", "true"},
                              {"truncated_importance_sampling_type", "\"icepop\""},
                              {"truncated_importance_sampling_ratio", "2"},
                              {"truncated_importance_sampling_ratio_min", "0.5"},
                              {"positive_example_nll_weight", "0.125"}});
  EXPECT_FALSE(o.token_level_loss);
  EXPECT_EQ(o.ratio_clip_min, 0.1);
  EXPECT_EQ(o.ratio_clip_max, 0.3);
  EXPECT_EQ(o.ratio_clip_c, 3);
  EXPECT_TRUE(o.disable_ppo_ratio && o.force_on_policy_ratio);
  EXPECT_TRUE(o.sequence_level_importance_ratios);
  EXPECT_EQ(o.reference_policy_kl_penalty, 0.5);
  EXPECT_EQ(o.reference_policy_kl_type, KlType::k2);
  EXPECT_EQ(o.kl_input_clamp_value, std::nullopt);
  EXPECT_EQ(o.kl_output_clamp_value, 5);
  EXPECT_TRUE(o.use_kl_in_reward && o.use_on_policy_kl_approximation);
  EXPECT_TRUE(o.use_importance_sampling_correction);
  EXPECT_EQ(o.truncated_importance_sampling_type, Truncation::icepop);
  EXPECT_EQ(o.truncated_importance_sampling_ratio, 2);
  EXPECT_EQ(o.truncated_importance_sampling_ratio_min, 0.5);
  EXPECT_EQ(o.positive_example_nll_weight, 0.125);
  EXPECT_TRUE(ClippedPgOptions::from({{"use_cispo", "true"}}).use_cispo);
  EXPECT_EQ(
      ClippedPgOptions::from({{"reference_policy_kl_type", "\"k1\""}}).reference_policy_kl_type,
      KlType::k1);
}

TEST(ClippedPgOptions, NeedsFollowTheOptions) {
  const auto needs = [](const Options& options) { return ClippedPgOptions::from(options).needs(); };
  const ObjectiveNeeds all = needs({});
  EXPECT_TRUE(all.needs(TokenInput::advantages));
  EXPECT_TRUE(all.needs(TokenInput::prev_logprobs));
  EXPECT_TRUE(all.needs(TokenInput::generation_logprobs));
  EXPECT_TRUE(all.needs(TokenInput::reference_policy_logprobs));
  EXPECT_FALSE(all.rewards);
  EXPECT_FALSE(all.row_statistics);
  EXPECT_EQ(all.sequences_per_unit, 1);
  EXPECT_FALSE(needs({{"force_on_policy_ratio", "true"}}).needs(TokenInput::prev_logprobs));
  EXPECT_TRUE(needs({{"disable_ppo_ratio", "true"}}).needs(TokenInput::prev_logprobs));
  for (const Options& no_kl :
       {Options{{"reference_policy_kl_penalty", "0"}}, Options{{"use_kl_in_reward", "true"}}}) {
    EXPECT_FALSE(needs(no_kl).needs(TokenInput::reference_policy_logprobs));
  }
  EXPECT_TRUE(needs({{"positive_example_nll_weight", "0.1"}}).rewards);
  EXPECT_FALSE(needs({{"token_level_loss", "false"}}).sequence_counts);
  EXPECT_FALSE(needs({{"loss_agg_mode", "\"token-sum\""}}).sequence_counts);
  EXPECT_TRUE(needs({{"loss_agg_mode", "\"seq-mean-token-sum\""}}).sequence_counts);
  const Options of_prompts{{"loss_agg_mode", "\"prompt-mean\""}, {"prompt_group_size", "4"}};
  EXPECT_FALSE(needs(of_prompts).sequence_counts);
  EXPECT_EQ(needs(of_prompts).group_size, 4);
  EXPECT_EQ(needs({}).group_size, 0);
  EXPECT_TRUE(needs({{"loss_agg_mode", "\"token-mean-legacy\""}}).packs_are_groups);
  EXPECT_FALSE(needs(of_prompts).packs_are_groups);
}

TEST(ClippedPgOptions, ValuesOutOfRangeAreRefused) {
  const auto refused = [](const char* option, const char* value) {
    expect_bad_input([&] { ClippedPgOptions::from({{option, value}}); }, {"clipped_pg: ", option});
  };
  refused("ratio_clip_min", "-0.1");
  refused("ratio_clip_min", "1.5");
  refused("ratio_clip_max", "-0.1");
  refused("ratio_clip_c", "1");
  refused("kl_input_clamp_value", "0");
  refused("kl_output_clamp_value", "-1");
  refused("positive_example_nll_weight", "-0.1");
  refused("reference_policy_kl_type", "\"k4\"");
  refused("truncated_importance_sampling_type", "\"clip\"");
  refused("token_level_loss", "1");
  refused("loss_agg_mode", "\"batch-mean\"");
  refused("policy_loss", "\"sapo2\"");
  refused("tau_pos", "0");
  refused("cispo_bounds", "\"lower\"");
  refused("kl_gradient", "\"k2\"");
  refused("log_ratio_min", "0");
  refused("log_ratio_max", "-1");
  refused("tau_neg", "-1");
  refused("dro_beta", "0");
  refused("vespo_k_pos", "-1");
  refused("vespo_lambda_pos", "-1");
  refused("vespo_k_neg", "-1");
  refused("vespo_lambda_neg", "-1");
  expect_bad_input(
      [] {
        ClippedPgOptions::from({{"ratio_clip_maxx", "1"}});
      },
      {"'clipped_pg'", "'ratio_clip_maxx'", "'ratio_clip_max'"});
}

TEST(ClippedPgOptions, CombinationsWithoutMeaningAreRefused) {
  const auto refused = [](const Options& options, const std::vector<std::string>& parts) {
    expect_bad_input([&] { ClippedPgOptions::from(options); }, parts);
  };
  const std::pair<std::string, std::string> gspo{"sequence_level_importance_ratios", "true"};
  const std::pair<std::string, std::string> by_sequence{"token_level_loss", "false"};
  const std::pair<std::string, std::string> cispo{"use_cispo", "true"};
  refused({gspo}, {"sequence_level_importance_ratios", "token_level_loss = false"});
  refused({cispo, {"disable_ppo_ratio", "true"}}, {"use_cispo", "disable_ppo_ratio"});
  refused({cispo, {"force_on_policy_ratio", "true"}}, {"use_cispo", "force_on_policy_ratio"});
  refused({cispo, gspo, by_sequence}, {"use_cispo", "sequence_level_importance_ratios"});
  refused({cispo, {"ratio_clip_c", "3"}}, {"use_cispo", "ratio_clip_c"});
  refused({cispo, by_sequence}, {"use_cispo", "token_level_loss"});

  const std::pair<std::string, std::string> seq_k2{"rollout_rs", "\"seq_mean_k2\""};
  const std::pair<std::string, std::string> threshold{"rollout_rs_threshold", "2"};
  refused({seq_k2}, {"rollout_rs", "rollout_rs_threshold"});
  refused({threshold}, {"rollout_rs_threshold", "rollout_rs"});
  refused({seq_k2, threshold, {"rollout_rs_threshold_min", "1"}}, {"threshold_min", "k1"});
  refused({seq_k2, threshold, {"token_masks_first", "true"}}, {"token_masks_first"});
  refused({{"veto_ratio_min", "2"}, {"veto_ratio_max", "1"}}, {"veto_ratio_max"});
  refused({{"rollout_is", "\"sequence\""}}, {"rollout_is", "use_importance_sampling_correction"});
  refused({{"cispo_bounds", "\"upper\""}}, {"cispo_bounds", "use_cispo"});
  refused({cispo, {"cispo_bounds", "\"absolute\""}, {"ratio_clip_min", "0.5"}},
          {"ratio_clip_min", "ratio_clip_max"});
  refused({{"gspo_token", "true"}}, {"gspo_token", "sequence_level_importance_ratios"});
  refused({{"log_ratio_max", "20"}, {"disable_ppo_ratio", "true"}}, {"log_ratio_max", "ratio"});
  refused({{"kl_gradient", "\"value\""}, {"use_on_policy_kl_approximation", "true"}},
          {"kl_gradient", "use_on_policy_kl_approximation"});
  refused({{"kl_gradient", "\"ratio\""}, by_sequence, gspo}, {"kl_gradient"});

  const std::pair<std::string, std::string> sapo{"policy_loss", "\"sapo\""};
  refused({sapo, {"use_cispo", "true"}}, {"use_cispo", "policy_loss"});
  refused({sapo, {"ratio_clip_c", "3"}}, {"ratio_clip_c", "policy_loss"});
  refused({sapo, {"disable_ppo_ratio", "true"}}, {"disable_ppo_ratio", "policy_loss"});

  const auto refused_with = [&](const Options& loss, const Options& more,
                                const std::vector<std::string>& parts) {
    Options options = loss;
    options.insert(more.begin(), more.end());
    refused(options, parts);
  };
  const Options geo_mean{{"policy_loss", "\"geo_mean\""}, by_sequence};
  const Options dro{{"policy_loss", "\"dro\""}, {"dro_beta", "1"}};
  const Options vespo{{"policy_loss", "\"vespo\""}};
  const Options dppo{{"policy_loss", "\"dppo_tv\""}};
  const Options weighs{{"use_importance_sampling_correction", "true"}};
  for (const Options& loss : {geo_mean, dro, vespo, dppo}) {
    ClippedPgOptions::from(loss);
    refused_with(loss, {{"use_cispo", "true"}}, {"use_cispo", "policy_loss"});
    refused_with(loss, {{"disable_ppo_ratio", "true"}}, {"disable_ppo_ratio", "policy_loss"});
    refused_with(loss, {{"force_on_policy_ratio", "true"}}, {"force_on_policy_ratio", "sapo"});
    refused_with(loss, {gspo, by_sequence}, {"sequence_level_importance_ratios", "sapo"});
  }
  refused({{"policy_loss", "\"geo_mean\""}}, {"geo_mean", "token_level_loss = false"});
  refused_with(geo_mean, weighs, {"geo_mean", "weights of sequences"});
  refused_with(geo_mean, {{"rollout_rs", "\"token_k2\""}, threshold}, {"geo_mean", "rollout_rs"});
  refused_with(geo_mean, {{"off_policy_mask_threshold", "1"}}, {"geo_mean", "off_policy_mask"});
  refused({{"policy_loss", "\"dro\""}}, {"dro", "dro_beta"});
  refused({{"dro_beta", "1"}}, {"dro_beta", "policy_loss"});
  refused_with(dro, {{"log_ratio_max", "2"}}, {"log_ratio_max", "dro"});
  refused_with(vespo, weighs, {"vespo", "use_importance_sampling_correction"});
  refused_with(vespo, {{"ratio_clip_c", "3"}}, {"ratio_clip_c", "policy_loss"});
  ClippedPgOptions::from({{"policy_loss", "\"dppo_kl\""}, {"ratio_clip_c", "3"}});

  const std::pair<std::string, std::string> norm{"loss_agg_mode", "\"seq-mean-token-sum-norm\""};
  const std::pair<std::string, std::string> token_sum{"loss_agg_mode", "\"token-sum\""};
  refused({norm}, {"seq-mean-token-sum-norm", "loss_scale_factor"});
  refused({norm, {"loss_scale_factor", "0"}}, {"loss_scale_factor", "above 0"});
  refused({{"loss_scale_factor", "2"}}, {"loss_scale_factor", "seq-mean-token-sum-norm"});
  refused({token_sum, {"loss_scale_factor", "2"}}, {"loss_scale_factor", "loss_agg_mode"});
  refused({{"count_masked_sequences", "true"}}, {"count_masked_sequences", "loss_agg_mode"});
  refused({token_sum, {"count_masked_sequences", "true"}}, {"count_masked_sequences"});
  const std::pair<std::string, std::string> prompts{"loss_agg_mode", "\"prompt-mean\""};
  refused({prompts}, {"prompt-mean", "prompt_group_size"});
  refused({{"prompt_group_size", "4"}}, {"prompt_group_size", "prompt-mean"});
  for (const char* size : {"0", "1.5", "-2", "1e10"}) {
    refused({prompts, {"prompt_group_size", size}}, {"prompt_group_size", "whole number"});
  }
  ClippedPgOptions::from({gspo, token_sum});
  ClippedPgOptions::from({cispo, by_sequence, token_sum});

  const std::string type = "truncated_importance_sampling_type";
  const std::string ratio = "truncated_importance_sampling_ratio";
  const std::string ratio_min = "truncated_importance_sampling_ratio_min";
  const std::string corrects = "use_importance_sampling_correction";
  const std::pair<std::string, std::string> corrected{corrects, "true"};
  const std::pair<std::string, std::string> lacks{"nonfinite_generation_logprobs",
                                                  "\"zero_weight\""};
  refused({lacks}, {"nonfinite_generation_logprobs", "use_importance_sampling_correction"});
  const std::pair<std::string, std::string> normalised{"rollout_is_batch_normalize", "true"};
  refused({normalised}, {"rollout_is_batch_normalize", "use_importance_sampling_correction"});
  refused({normalised, corrected, {"force_on_policy_ratio", "true"}},
          {"rollout_is_batch_normalize", "force_on_policy_ratio"});
  const ObjectiveNeeds of_tokens = ClippedPgOptions::from({normalised, corrected}).needs();
  EXPECT_TRUE(of_tokens.input_sum && !of_tokens.sequence_counts);
  const ObjectiveNeeds of_sequences =
      ClippedPgOptions::from({normalised, corrected, {"rollout_is", "\"sequence\""}}).needs();
  EXPECT_TRUE(of_sequences.input_sum && of_sequences.sequence_counts);
  EXPECT_TRUE(ClippedPgOptions::from({lacks, corrected, {"veto_ratio_max", "2"}}).rejects());
  const ObjectiveNeeds of_dropped =
      ClippedPgOptions::from({{"nonfinite_generation_logprobs", "\"drop\""}}).needs();
  EXPECT_TRUE(of_dropped.generation_may_lack && of_dropped.drops_lacking);
  const std::pair<std::string, std::string> loglinear{"prox_logp_method", "\"loglinear\""};
  const std::pair<std::string, std::string> version{"current_version", "5"};
  refused({loglinear}, {"prox_logp_method", "current_version"});
  refused({version}, {"current_version", "prox_logp_method"});
  refused({loglinear, {"current_version", "1.5"}}, {"current_version", "whole number"});
  refused({loglinear, {"current_version", "-1"}}, {"current_version", "whole number"});
  refused({loglinear, version, {"force_on_policy_ratio", "true"}}, {"prox_logp_method"});
  refused({loglinear, version, corrected, normalised}, {"rollout_is_batch_normalize"});
  refused({loglinear, version, corrected, lacks}, {"zero_weight"});
  refused({{"policy_loss", "\"dppo_binary_tv\""}, corrected, lacks}, {"zero_weight"});
  refused({{"policy_loss", "\"dppo_binary_kl\""}, {"ratio_clip_c", "3"}}, {"ratio_clip_c"});
  const ObjectiveNeeds of_versions = ClippedPgOptions::from({loglinear, version}).needs();
  EXPECT_TRUE(of_versions.needs(TokenInput::versions));
  EXPECT_FALSE(of_versions.needs(TokenInput::prev_logprobs));
  EXPECT_TRUE(ClippedPgOptions::from({lacks, corrected}).needs().generation_may_lack);
  EXPECT_FALSE(ClippedPgOptions::from({corrected}).needs().generation_may_lack);
  refused({{ratio, "2"}}, {ratio, type});
  refused({{ratio_min, "0.5"}}, {ratio_min, type});
  refused({{type, "\"tis\""}, {ratio, "2"}}, {type, corrects});
  refused({corrected, {type, "\"tis\""}}, {type, ratio});
  refused({corrected, {type, "\"tis\""}, {ratio, "0"}}, {type, ratio});
  refused({corrected, {type, "\"tis\""}, {ratio, "1"}, {ratio_min, "2"}}, {ratio_min, ratio});
  refused({corrected, {type, "\"icepop\""}, {ratio, "2"}}, {"icepop", ratio_min});
  refused({corrected, {type, "\"seq-mask-tis\""}, {ratio, "2"}}, {"seq-mask-tis", ratio_min});
  refused(
      {corrected, gspo, by_sequence, {type, "\"seq-mask-tis\""}, {ratio, "2"}, {ratio_min, "1"}},
      {"seq-mask-tis", "sequence_level_importance_ratios"});
}

}  // namespace
}  // namespace lossgrid
