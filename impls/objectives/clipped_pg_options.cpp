// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg_options.h"

#include <cmath>

#include "harness/core/error.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

Truncation truncation(const std::optional<std::string>& name) {
  if (!name) return Truncation::none;
  return *name == "tis"      ? Truncation::tis
         : *name == "icepop" ? Truncation::icepop
                             : Truncation::seq_mask_tis;
}

struct RejectionName {
  const char* name;
  RejectionLevel level;
  RejectionStatistic statistic;
};

constexpr RejectionName kRejections[] = {
    {"token_k1", RejectionLevel::token, RejectionStatistic::k1},
    {"token_k2", RejectionLevel::token, RejectionStatistic::k2},
    {"token_k3", RejectionLevel::token, RejectionStatistic::k3},
    {"seq_sum_k1", RejectionLevel::sequence_sum, RejectionStatistic::k1},
    {"seq_sum_k2", RejectionLevel::sequence_sum, RejectionStatistic::k2},
    {"seq_sum_k3", RejectionLevel::sequence_sum, RejectionStatistic::k3},
    {"seq_mean_k1", RejectionLevel::sequence_mean, RejectionStatistic::k1},
    {"seq_mean_k2", RejectionLevel::sequence_mean, RejectionStatistic::k2},
    {"seq_mean_k3", RejectionLevel::sequence_mean, RejectionStatistic::k3},
    {"seq_max_k2", RejectionLevel::sequence_max, RejectionStatistic::k2},
    {"seq_max_k3", RejectionLevel::sequence_max, RejectionStatistic::k3},
};

void read_rejection(const OptionReader& reader, ClippedPgOptions& o) {
  std::vector<std::string> names;
  for (const RejectionName& rejection : kRejections) names.emplace_back(rejection.name);
  const std::optional<std::string> name = reader.optional_one_of("rollout_rs", names);
  for (const RejectionName& rejection : kRejections) {
    if (name != rejection.name) continue;
    o.rejection_level = rejection.level;
    o.rejection_statistic = rejection.statistic;
  }
  const auto read = [&](const char* option, std::optional<double>& value) {
    value = reader.optional_number(option, value);
  };
  read("rollout_rs_threshold", o.rollout_rs_threshold);
  read("rollout_rs_threshold_min", o.rollout_rs_threshold_min);
  read("veto_ratio_min", o.veto_ratio_min);
  read("veto_ratio_max", o.veto_ratio_max);
  read("off_policy_mask_threshold", o.off_policy_mask_threshold);
  o.token_masks_first = reader.flag("token_masks_first", o.token_masks_first);
}

struct Rule {
  bool is_broken;
  const char* text;
};

void require(std::initializer_list<Rule> rules) {
  for (const Rule& rule : rules) {
    if (rule.is_broken) throw_bad_input("clipped_pg: {}", rule.text);
  }
}

void require_values_in_range(const ClippedPgOptions& o) {
  const auto not_positive = [](const std::optional<double>& value) { return value && *value <= 0; };
  require({
      {o.tau_pos <= 0, "tau_pos must be above 0"},
      {o.tau_neg <= 0, "tau_neg must be above 0"},
      {not_positive(o.dro_beta), "dro_beta must be above 0"},
      {o.vespo_k_pos < 0, "vespo_k_pos must not be negative"},
      {o.vespo_lambda_pos < 0, "vespo_lambda_pos must not be negative"},
      {o.vespo_k_neg < 0, "vespo_k_neg must not be negative"},
      {o.vespo_lambda_neg < 0, "vespo_lambda_neg must not be negative"},
      {o.ratio_clip_min < 0 || o.ratio_clip_min > 1, "ratio_clip_min must be in [0, 1]"},
      {o.ratio_clip_max < 0, "ratio_clip_max must not be negative"},
      {o.ratio_clip_c && *o.ratio_clip_c <= 1, "ratio_clip_c must be above 1, or null"},
      {not_positive(o.kl_input_clamp_value), "kl_input_clamp_value must be above 0, or null"},
      {not_positive(o.kl_output_clamp_value), "kl_output_clamp_value must be above 0, or null"},
      {o.positive_example_nll_weight < 0, "positive_example_nll_weight must not be negative"},
  });
}

constexpr double kLargestGroup = 2147483647;

void require_aggregation_fits(const ClippedPgOptions& o) {
  const bool divides = o.loss_agg_mode == AggregationMode::sequence_mean_token_sum_norm;
  const bool over_sequences = o.loss_agg_mode && !o.aggregation().over_tokens();
  const bool over_prompts = o.loss_agg_mode == AggregationMode::prompt_mean;
  const std::optional<double>& group = o.prompt_group_size;
  require({
      {divides && !o.loss_scale_factor,
       "loss_agg_mode = \"seq-mean-token-sum-norm\" needs a loss_scale_factor"},
      {o.loss_scale_factor && !divides,
       "loss_scale_factor needs loss_agg_mode = \"seq-mean-token-sum-norm\""},
      {o.loss_scale_factor && *o.loss_scale_factor <= 0, "loss_scale_factor must be above 0"},
      {over_prompts && !group, "loss_agg_mode = \"prompt-mean\" needs a prompt_group_size"},
      {group && !over_prompts, "prompt_group_size needs loss_agg_mode = \"prompt-mean\""},
      {group && (*group < 1 || *group > kLargestGroup || *group != std::floor(*group)),
       "prompt_group_size must be a whole number in [1, 2^31)"},
      {o.count_masked_sequences && !over_sequences,
       "count_masked_sequences = true needs a loss_agg_mode with a mean over sequences"},
  });
}

void require_policy_loss_fits(const ClippedPgOptions& o) {
  require(
      {{o.dro_beta && o.policy_loss != PolicyLoss::dro, "dro_beta needs policy_loss = \"dro\""}});
  if (o.policy_loss == PolicyLoss::ppo) return;
  require({
      {o.use_cispo, "use_cispo = true needs policy_loss = \"ppo\""},
      {o.disable_ppo_ratio, "disable_ppo_ratio = true needs policy_loss = \"ppo\""},
      {o.ratio_clip_c && !o.is_dppo(), "ratio_clip_c needs policy_loss = \"ppo\" or that of DPPO"},
  });
  if (o.policy_loss == PolicyLoss::sapo) return;
  const bool is_dro = o.policy_loss == PolicyLoss::dro;
  const bool weighs_tokens = o.use_importance_sampling_correction && !o.weighs_sequences();
  require({
      {o.force_on_policy_ratio,
       "force_on_policy_ratio = true needs policy_loss = \"ppo\" or \"sapo\""},
      {o.sequence_level_importance_ratios,
       "sequence_level_importance_ratios = true needs policy_loss = \"ppo\" or \"sapo\""},
      {is_dro && !o.dro_beta, "policy_loss = \"dro\" needs a dro_beta"},
      {is_dro && (o.log_ratio_min || o.log_ratio_max),
       "log_ratio_min and log_ratio_max exclude policy_loss = \"dro\""},
      {o.is_geo_mean() && o.token_level_loss && !o.loss_agg_mode,
       "policy_loss = \"geo_mean\" needs token_level_loss = false or a loss_agg_mode"},
      {o.is_geo_mean() && weighs_tokens, "policy_loss = \"geo_mean\" needs weights of sequences"},
      {o.is_geo_mean() && o.rejection_level == RejectionLevel::token,
       "policy_loss = \"geo_mean\" excludes a rollout_rs of tokens"},
      {o.is_geo_mean() && o.off_policy_mask_threshold,
       "policy_loss = \"geo_mean\" excludes off_policy_mask_threshold"},
      {o.is_binary_dppo() && o.takes_lack_of_generation(),
       "the ratios of this policy_loss exclude nonfinite_generation_logprobs = \"zero_weight\""},
      {o.is_vespo() && o.use_importance_sampling_correction,
       "policy_loss = \"vespo\" excludes use_importance_sampling_correction = true"},
  });
}

void require_ratios_fit(const ClippedPgOptions& o) {
  require({
      {o.sequence_level_importance_ratios && o.token_level_loss && !o.loss_agg_mode,
       "sequence_level_importance_ratios = true needs token_level_loss = false or a "
       "loss_agg_mode"},
      {o.use_cispo && o.disable_ppo_ratio, "use_cispo = true excludes disable_ppo_ratio = true"},
      {o.use_cispo && o.force_on_policy_ratio,
       "use_cispo = true excludes force_on_policy_ratio = true"},
      {o.use_cispo && o.sequence_level_importance_ratios,
       "use_cispo = true excludes sequence_level_importance_ratios = true"},
      {o.cispo_bounds != CispoBounds::offset && !o.use_cispo,
       "cispo_bounds needs use_cispo = true"},
      {o.use_cispo && o.lowest_ratio() > o.highest_ratio(),
       "ratio_clip_min must not be above ratio_clip_max where cispo_bounds = \"absolute\""},
      {o.gspo_token && !o.sequence_ratio(),
       "gspo_token = true needs sequence_level_importance_ratios = true and a ratio"},
      {(o.log_ratio_min || o.log_ratio_max) && !o.has_ratio(),
       "log_ratio_min and log_ratio_max need a ratio"},
      {o.log_ratio_min && *o.log_ratio_min >= 0, "log_ratio_min must be below 0, or null"},
      {o.log_ratio_max && *o.log_ratio_max <= 0, "log_ratio_max must be above 0, or null"},
      {o.kl_gradient != KlGradient::score && o.use_on_policy_kl_approximation,
       "use_on_policy_kl_approximation = true needs kl_gradient = \"score\""},
      {o.kl_gradient == KlGradient::ratio && o.sequence_level_importance_ratios,
       "kl_gradient = \"ratio\" excludes sequence_level_importance_ratios = true"},
      {o.use_cispo && o.ratio_clip_c, "use_cispo = true excludes a ratio_clip_c"},
      {o.use_cispo && !o.token_level_loss && !o.loss_agg_mode,
       "use_cispo = true excludes token_level_loss = false without a loss_agg_mode"},
  });
}

constexpr double kLargestVersion = 16777216;

void require_proximal_fits(const ClippedPgOptions& o) {
  const std::optional<double>& now = o.current_version;
  require({
      {o.approximates_proximal() && !now,
       "prox_logp_method = \"loglinear\" and \"linear\" need a current_version"},
      {now && !o.approximates_proximal(),
       "current_version needs prox_logp_method = \"loglinear\" or \"linear\""},
      {now && (*now < 0 || *now > kLargestVersion || *now != std::floor(*now)),
       "current_version must be a whole number in [0, 2^24]"},
      {now && o.force_on_policy_ratio, "prox_logp_method excludes force_on_policy_ratio = true"},
      {now && o.rollout_is_batch_normalize,
       "prox_logp_method excludes rollout_is_batch_normalize = true: its weights depend on the "
       "current policy"},
      {now && o.takes_lack_of_generation(),
       "prox_logp_method excludes nonfinite_generation_logprobs = \"zero_weight\""},
  });
}

void require_truncation_fits(const ClippedPgOptions& o) {
  const std::optional<double>& ratio = o.truncated_importance_sampling_ratio;
  const std::optional<double>& ratio_min = o.truncated_importance_sampling_ratio_min;
  require({
      {!o.truncates() && ratio,
       "truncated_importance_sampling_ratio needs a truncated_importance_sampling_type"},
      {!o.truncates() && ratio_min,
       "truncated_importance_sampling_ratio_min needs a truncated_importance_sampling_type"},
  });
  if (!o.truncates()) return;
  require({
      {!o.use_importance_sampling_correction,
       "truncated_importance_sampling_type needs use_importance_sampling_correction = true"},
      {!ratio || *ratio <= 0,
       "truncated_importance_sampling_type needs truncated_importance_sampling_ratio above 0"},
      {o.truncated_importance_sampling_type == Truncation::icepop && !ratio_min,
       "truncated_importance_sampling_type = \"icepop\" needs a "
       "truncated_importance_sampling_ratio_min"},
      {o.masks_sequences() && !ratio_min,
       "truncated_importance_sampling_type = \"seq-mask-tis\" needs a "
       "truncated_importance_sampling_ratio_min"},
      {ratio && ratio_min && *ratio_min > *ratio,
       "truncated_importance_sampling_ratio_min must not be above "
       "truncated_importance_sampling_ratio"},
      {o.masks_sequences() && o.sequence_level_importance_ratios,
       "truncated_importance_sampling_type = \"seq-mask-tis\" excludes "
       "sequence_level_importance_ratios = true"},
  });
}

void require_rejection_fits(const ClippedPgOptions& o) {
  const bool has_rule = o.rejection_level != RejectionLevel::none;
  const std::optional<double>& high = o.rollout_rs_threshold;
  const std::optional<double>& low = o.rollout_rs_threshold_min;
  require({
      {has_rule && (!high || *high <= 0), "rollout_rs needs a rollout_rs_threshold above 0"},
      {!has_rule && (high || low), "rollout_rs_threshold needs a rollout_rs"},
      {low && o.rejection_statistic != RejectionStatistic::k1,
       "rollout_rs_threshold_min needs a rollout_rs by k1"},
      {low && high && (*low <= 0 || *low > *high),
       "rollout_rs_threshold_min must be above 0 and not above rollout_rs_threshold"},
      {o.veto_ratio_min && *o.veto_ratio_min <= 0, "veto_ratio_min must be above 0, or null"},
      {o.veto_ratio_max && *o.veto_ratio_max <= o.veto_ratio_min.value_or(0),
       "veto_ratio_max must be above 0 and above veto_ratio_min, or null"},
      {o.token_masks_first && o.rejection_level != RejectionLevel::token,
       "token_masks_first = true needs a rollout_rs of tokens"},
      {o.rollout_is && !o.use_importance_sampling_correction,
       "rollout_is needs use_importance_sampling_correction = true"},
      {o.rollout_is_batch_normalize && !o.use_importance_sampling_correction,
       "rollout_is_batch_normalize = true needs use_importance_sampling_correction = true"},
      {o.rollout_is_batch_normalize && (o.masks_sequences() || o.force_on_policy_ratio),
       "rollout_is_batch_normalize = true excludes force_on_policy_ratio = true and "
       "truncated_importance_sampling_type = \"seq-mask-tis\""},
      {o.takes_lack_of_generation() && !o.use_importance_sampling_correction,
       "nonfinite_generation_logprobs = \"zero_weight\" needs "
       "use_importance_sampling_correction = true"},
      {o.masks_sequences() && o.weighs_sequences(),
       "truncated_importance_sampling_type = \"seq-mask-tis\" needs weights of tokens"},
  });
}

}  // namespace

ClippedPgOptions ClippedPgOptions::from(const ObjectiveOptions& options) {
  return read(OptionReader(options, "clipped_pg"));
}

ClippedPgOptions ClippedPgOptions::read(const OptionReader& reader) {
  ClippedPgOptions o;
  o.token_level_loss = reader.flag("token_level_loss", o.token_level_loss);
  o.loss_agg_mode = reader.optional_enumerator<AggregationMode>(
      "loss_agg_mode", {"token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum",
                        "seq-mean-token-sum-norm", "prompt-mean", "token-mean-legacy"});
  o.loss_scale_factor = reader.optional_number("loss_scale_factor", o.loss_scale_factor);
  o.prompt_group_size = reader.optional_number("prompt_group_size", o.prompt_group_size);
  o.count_masked_sequences = reader.flag("count_masked_sequences", o.count_masked_sequences);
  o.policy_loss =
      reader.enumerator("policy_loss",
                        {"ppo", "sapo", "geo_mean", "dro", "dppo_tv", "dppo_kl", "vespo",
                         "clip_cov", "kl_cov", "dppo_binary_tv", "dppo_binary_kl"},
                        o.policy_loss);
  o.tau_pos = reader.number("tau_pos", o.tau_pos);
  o.tau_neg = reader.number("tau_neg", o.tau_neg);
  o.dro_beta = reader.optional_number("dro_beta", o.dro_beta);
  o.vespo_k_pos = reader.number("vespo_k_pos", o.vespo_k_pos);
  o.vespo_lambda_pos = reader.number("vespo_lambda_pos", o.vespo_lambda_pos);
  o.vespo_k_neg = reader.number("vespo_k_neg", o.vespo_k_neg);
  o.vespo_lambda_neg = reader.number("vespo_lambda_neg", o.vespo_lambda_neg);
  o.ratio_clip_min = reader.number("ratio_clip_min", o.ratio_clip_min);
  o.ratio_clip_max = reader.number("ratio_clip_max", o.ratio_clip_max);
  o.ratio_clip_c = reader.optional_number("ratio_clip_c", o.ratio_clip_c);
  o.disable_ppo_ratio = reader.flag("disable_ppo_ratio", o.disable_ppo_ratio);
  o.force_on_policy_ratio = reader.flag("force_on_policy_ratio", o.force_on_policy_ratio);
  o.use_cispo = reader.flag("use_cispo", o.use_cispo);
  o.cispo_bounds =
      reader.enumerator("cispo_bounds", {"offset", "upper", "absolute"}, o.cispo_bounds);
  o.gspo_token = reader.flag("gspo_token", o.gspo_token);
  o.log_ratio_min = reader.optional_number("log_ratio_min", o.log_ratio_min);
  o.log_ratio_max = reader.optional_number("log_ratio_max", o.log_ratio_max);
  o.sequence_level_importance_ratios =
      reader.flag("sequence_level_importance_ratios", o.sequence_level_importance_ratios);
  o.prox_logp_method = reader.enumerator("prox_logp_method", {"recompute", "loglinear", "linear"},
                                         o.prox_logp_method);
  o.current_version = reader.optional_number("current_version", o.current_version);
  o.reference_policy_kl_penalty =
      reader.number("reference_policy_kl_penalty", o.reference_policy_kl_penalty);
  o.reference_policy_kl_type = reader.enumerator(
      "reference_policy_kl_type", {"k1", "k2", "k3", "abs"}, o.reference_policy_kl_type);
  o.kl_gradient = reader.enumerator(
      "kl_gradient", {"score", "value", "straight-through", "importance", "ratio"}, o.kl_gradient);
  o.kl_input_clamp_value = reader.optional_number("kl_input_clamp_value", o.kl_input_clamp_value);
  o.kl_output_clamp_value =
      reader.optional_number("kl_output_clamp_value", o.kl_output_clamp_value);
  o.use_kl_in_reward = reader.flag("use_kl_in_reward", o.use_kl_in_reward);
  o.use_on_policy_kl_approximation =
      reader.flag("use_on_policy_kl_approximation", o.use_on_policy_kl_approximation);
  o.use_importance_sampling_correction =
      reader.flag("use_importance_sampling_correction", o.use_importance_sampling_correction);
  o.truncated_importance_sampling_type = truncation(reader.optional_one_of(
      "truncated_importance_sampling_type", {"tis", "icepop", "seq-mask-tis"}));
  o.truncated_importance_sampling_ratio = reader.optional_number(
      "truncated_importance_sampling_ratio", o.truncated_importance_sampling_ratio);
  o.truncated_importance_sampling_ratio_min = reader.optional_number(
      "truncated_importance_sampling_ratio_min", o.truncated_importance_sampling_ratio_min);
  o.nonfinite_generation_logprobs =
      reader.enumerator("nonfinite_generation_logprobs", {"refuse", "zero_weight", "drop"},
                        o.nonfinite_generation_logprobs);
  o.rollout_is =
      reader.optional_enumerator<WeightLevel>("rollout_is", {"token", "sequence", "geometric"});
  o.rollout_is_batch_normalize =
      reader.flag("rollout_is_batch_normalize", o.rollout_is_batch_normalize);
  read_rejection(reader, o);
  o.positive_example_nll_weight =
      reader.number("positive_example_nll_weight", o.positive_example_nll_weight);
  o.entropy_coefficient = reader.number("entropy_coefficient", o.entropy_coefficient);
  o.selecting = SelectionOptions::read(reader);
  reader.require_all_known();
  require_values_in_range(o);
  require_aggregation_fits(o);
  require_policy_loss_fits(o);
  require_ratios_fit(o);
  require_proximal_fits(o);
  require_truncation_fits(o);
  require_rejection_fits(o);
  require_selection_fits(o);
  return o;
}

}  // namespace lossgrid
