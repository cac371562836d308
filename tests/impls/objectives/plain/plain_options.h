// SPDX-License-Identifier: Apache-2.0
// Options of all objectives that a second judge reads for itself: cases in which each option of the
// line decides alone. "name=value|other": the result differs from that with `other`, without one
// from that with the default.
#pragma once

#include <string>
#include <vector>

namespace lossgrid::plain {

struct OptionCase {
  std::string objective;
  std::string options;
  std::string keys = "";  // of the case, behind those of the objective
};

/// Returns the keys of the batches of an objective: sequences of one token and of none, some that
/// the sample mask leaves out, and masked tokens.
inline std::string batch_keys(const std::string& objective) {
  const std::string batch = " mask=ragged";
  if (objective == "value") return "head=value lens=6+4+7+1+0+5 sample_mask=110111" + batch;
  if (objective == "bradley_terry") {
    return "head=score lens=6+4+5+7+0+5+3+3 sample_mask=11001111" + batch;
  }
  if (objective == "distill") {
    return "lens=6+4+7+1+0+5 sample_mask=110111 vocab=6" + batch;
  }
  if (objective == "clipped_pg" || objective == "nll" || objective == "on_policy_distill") {
    return "lens=6+4+7+1+0+5 sample_mask=110111 vocab=5" + batch;
  }
  return "lens=6+4+5+7+3+3+4+6 sample_mask=11110011 vocab=5" + batch;
}

inline const std::vector<OptionCase>& option_cases() {
  static const std::vector<OptionCase> cases{
      {"nll", ""},
      {"nll", "", "logit_scale=1.5 logit_softcap=3 temperature=0.7 sequence_temperatures=true"},
      {"nll", "token_level_loss=false label_smoothing=0.2 z_loss_coefficient=0.1",
       "temperature=0.7 sequence_temperatures=true"},
      {"nll", "loss_type=dft", "temperature=1.4 statistics=false"},
      {"nll", "", "global_valid_toks=40 global_valid_seqs=9"},
      {"nll", "token_level_loss=false", "global_valid_seqs=9"},
      {"nll", "", "values=ties predictions=true temperature=0.7"},
      {"nll", "token_level_loss=false loss_type=dft"},
      {"nll", "label_smoothing=0.3 z_loss_coefficient=0.2", "top_k=3 logit_softcap=2"},
      {"nll", "", "top_k=3 predictions=true sequence_temperatures=true logit_softcap=2"},
      {"nll", "", "top_p=0.7 filtered_targets=zero sequence_temperatures=true"},

      {"on_policy_distill", "loss_mode=abs"},
      {"on_policy_distill", "loss_mode=k2 loss_max_clamp=0.1"},
      {"on_policy_distill", "loss_mode=k3|k2 loss_max_clamp=0.1"},
      {"on_policy_distill", "loss_mode=score loss_max_clamp=0.3", "drift=far"},
      {"on_policy_distill", "loss_mode=k2 loss_max_clamp=null", "drift=far"},

      {"distill", "kl_type=forward|reverse", "sequence_temperatures=true temperature=0.8"},
      {"distill", "kl_type=reverse", "teacher_topk=3 logit_softcap=3 logit_scale=2"},
      {"distill", "kl_type=mixed mixed_kl_weight=0.3", "temperature=1.3 logit_scale=0.6"},
      {"distill", "kl_type=jsd jsd_beta=0.2", "sequence_temperatures=true"},
      {"distill", "kl_type=jsd jsd_beta=0.8", "teacher_topk=4"},
      {"distill", "zero_outside_topk=true", "teacher_topk=4"},
      {"distill", "zero_outside_topk=true kl_type=reverse", "teacher_topk=4 temperature=0.8"},
      {"distill", "zero_outside_topk=true kl_type=mixed mixed_kl_weight=0.7", "teacher_topk=2"},
      {"distill", "loss_mode=forward_kl_topk log_prob_min_clamp=-1.5 loss_max_clamp=0.2",
       "teacher_topk=3"},
      {"distill", "loss_mode=forward_kl_topk log_prob_min_clamp=null|-1 loss_max_clamp=null|0.3",
       "teacher_topk=4 temperature=0.6"},
      {"distill", "distillation_add_tail=true kl_type=reverse", "teacher_topk=3"},
      {"distill", "distillation_add_tail=true kl_type=jsd jsd_beta=0.3", "teacher_topk=2"},

      {"value", "scale=0.4"},
      {"value", "cliprange_value=0.3 scale=2", "temperature=1.3"},
      {"value", "loss_type=huber huber_delta=0.4 cliprange_value=0.6", "logit_scale=0.7"},
      {"value", "loss_agg_mode=token-sum"},
      {"value", "loss_agg_mode=seq-mean-token-mean"},
      {"value", "loss_agg_mode=seq-mean-token-sum cliprange_value=0.2"},
      {"value", "loss_agg_mode=seq-mean-token-sum-norm|seq-mean-token-sum loss_scale_factor=3"},

      {"bradley_terry", "margin=true"},
      {"bradley_terry", "margin=true center_rewards_coefficient=0.2", "temperature=0.7"},

      {"dpo", "reference_policy_kl_penalty=0.4 preference_loss_weight=0.7 sft_loss_weight=0.3"},
      {"dpo", "preference_average_log_probs=true sft_average_log_probs=true sft_loss_weight=0.5"},
      {"dpo", "label_smoothing=0.2 reference_policy_kl_penalty=0.5",
       "temperature=0.7 sequence_temperatures=true"},
      {"dpo", "loss_type=robust label_smoothing=0.2 reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=hinge reference_policy_kl_penalty=0.7"},
      {"dpo", "loss_type=ipo reference_policy_kl_penalty=0.3 ipo_average_log_probs=false"},
      {"dpo", "loss_type=ipo reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=exo_pair label_smoothing=0.1|0.3 reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=nca_pair reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=bco_pair reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=sppo_hard reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=apo_zero reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=apo_down reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=discopop discopop_tau=0.2 reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=sigmoid_norm label_smoothing=0.1 reference_policy_kl_penalty=0.6"},
      {"dpo", "loss_type=aot label_smoothing=0.1 reference_policy_kl_penalty=0.3"},
      {"dpo", "loss_type=aot_unpaired label_smoothing=0.3 reference_policy_kl_penalty=0.3"},
      {"dpo", "ld_alpha=0.3 reference_policy_kl_penalty=0.3"},
      {"dpo", "ld_alpha=0.6 preference_average_log_probs=true loss_type=hinge"},
      {"dpo", "f_divergence_type=forward_kl reference_policy_kl_penalty=0.3"},
      {"dpo", "f_divergence_type=js_divergence reference_policy_kl_penalty=0.6"},
      {"dpo", "f_divergence_type=alpha_divergence f_alpha_divergence_coef=0.2"},
      {"dpo", "use_weighting=true reference_policy_kl_penalty=0.3", "temperature=0.8"},

      {"cpo", "beta=0.4 cpo_alpha=0.3 sft_average_log_probs=false"},
      {"cpo", "loss_type=simpo simpo_gamma=0.2 beta=0.7 label_smoothing=0.1"},
      {"cpo", "loss_type=hinge beta=0.3 alpha=0.2"},
      {"cpo", "loss_type=ipo beta=0.3 cpo_alpha=0.5"},
      {"cpo", "loss_type=simpo alpha=0.3 beta=0.6", "sequence_temperatures=true"},

      {"orpo", "beta=0.6"},
      {"orpo", "beta=0.3 sft_average_log_probs=false", "temperature=0.8"},

      {"kto", "beta=0.5 desirable_weight=0.4"},
      {"kto", "beta=0.5 undesirable_weight=1.7 desirable_weight=0.7"},
      {"kto", "loss_type=apo_zero_unpaired beta=0.4 undesirable_weight=0.6"},

      {"clipped_pg", ""},
      {"clipped_pg", "ratio_clip_min=0.05 ratio_clip_max=0.35"},
      {"clipped_pg", "ratio_clip_c=1.1 ratio_clip_max=0.02", "drift=far"},
      {"clipped_pg", "disable_ppo_ratio=true token_level_loss=false"},
      {"clipped_pg", "force_on_policy_ratio=true"},
      {"clipped_pg", "log_ratio_min=-0.15 log_ratio_max=0.1"},
      {"clipped_pg", "use_cispo=true ratio_clip_min=0.1 ratio_clip_max=0.3"},
      {"clipped_pg", "use_cispo=true cispo_bounds=upper ratio_clip_max=1.1"},
      {"clipped_pg", "use_cispo=true cispo_bounds=absolute ratio_clip_min=0.9 ratio_clip_max=1.1"},
      {"clipped_pg", "token_level_loss=false sequence_level_importance_ratios=true"},
      {"clipped_pg",
       "token_level_loss=false sequence_level_importance_ratios=true log_ratio_max=0.05 "
       "log_ratio_min=-0.05"},
      {"clipped_pg",
       "token_level_loss=false sequence_level_importance_ratios=true gspo_token=true "
       "ratio_clip_min=0.02 ratio_clip_max=0.03"},
      {"clipped_pg", "prox_logp_method=loglinear current_version=7|6"},
      {"clipped_pg",
       "prox_logp_method=linear current_version=7|6 use_importance_sampling_correction=true"},

      {"clipped_pg", "reference_policy_kl_penalty=0.5 reference_policy_kl_type=k1"},
      {"clipped_pg", "reference_policy_kl_penalty=0.5 reference_policy_kl_type=k2"},
      {"clipped_pg", "reference_policy_kl_penalty=0.5 reference_policy_kl_type=abs"},
      {"clipped_pg",
       "reference_policy_kl_penalty=0.5 kl_input_clamp_value=0.2 token_level_loss=false"},
      {"clipped_pg",
       "reference_policy_kl_penalty=0.5 kl_output_clamp_value=0.02 reference_policy_kl_type=k2"},
      {"clipped_pg",
       "reference_policy_kl_type=k1 kl_input_clamp_value=null kl_output_clamp_value=null",
       "lens=30+40 vocab=3 drift=far"},
      {"clipped_pg", "use_kl_in_reward=true"},
      {"clipped_pg", "reference_policy_kl_penalty=0.5 use_on_policy_kl_approximation=true"},
      {"clipped_pg", "reference_policy_kl_penalty=0.5 kl_gradient=value"},
      {"clipped_pg",
       "reference_policy_kl_penalty=0.5 kl_gradient=straight-through reference_policy_kl_type=k1"},
      {"clipped_pg", "reference_policy_kl_penalty=0.5 kl_gradient=importance"},
      {"clipped_pg",
       "reference_policy_kl_penalty=0.5 kl_gradient=ratio reference_policy_kl_type=k2"},

      {"clipped_pg", "use_importance_sampling_correction=true"},
      {"clipped_pg",
       "use_importance_sampling_correction=true truncated_importance_sampling_type=tis|icepop "
       "truncated_importance_sampling_ratio=1.05|1.3 truncated_importance_sampling_ratio_min=0.95"},
      {"clipped_pg",
       "use_importance_sampling_correction=true truncated_importance_sampling_type=icepop|tis "
       "truncated_importance_sampling_ratio=1.1|1.3 "
       "truncated_importance_sampling_ratio_min=0.9|0.99"},
      {"clipped_pg",
       "use_importance_sampling_correction=true "
       "truncated_importance_sampling_type=seq-mask-tis|tis "
       "truncated_importance_sampling_ratio=1.05|3 "
       "truncated_importance_sampling_ratio_min=1|0.2",
       "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
      {"clipped_pg",
       "use_importance_sampling_correction=true rollout_is=sequence "
       "truncated_importance_sampling_type=tis|icepop truncated_importance_sampling_ratio=1.1|2 "},
      {"clipped_pg", "use_importance_sampling_correction=true rollout_is=geometric"},
      {"clipped_pg",
       "use_importance_sampling_correction=true sequence_level_importance_ratios=true "
       "token_level_loss=false rollout_is=token"},
      {"clipped_pg",
       "use_importance_sampling_correction=true rollout_is_batch_normalize=true "
       "truncated_importance_sampling_type=tis|icepop truncated_importance_sampling_ratio=1.1|2"},
      {"clipped_pg",
       "use_importance_sampling_correction=true rollout_is_batch_normalize=true "
       "rollout_is=sequence"},
      {"clipped_pg",
       "use_importance_sampling_correction=true nonfinite_generation_logprobs=zero_weight|drop"},
      {"clipped_pg",
       "use_importance_sampling_correction=true nonfinite_generation_logprobs=zero_weight|drop "
       "rollout_is=sequence"},
      {"clipped_pg", "", "objective.nonfinite_generation_logprobs=drop"},

      {"clipped_pg",
       "rollout_rs=token_k1 rollout_rs_threshold=1.1|2 rollout_rs_threshold_min=0.95"},
      {"clipped_pg", "rollout_rs=token_k2 rollout_rs_threshold=0.01|1"},
      {"clipped_pg", "rollout_rs=token_k3 rollout_rs_threshold=0.01|1"},
      {"clipped_pg", "rollout_rs=seq_sum_k1 rollout_rs_threshold=1.3|9 rollout_rs_threshold_min=1",
       "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
      {"clipped_pg", "rollout_rs=seq_sum_k2 rollout_rs_threshold=0.05|9"},
      {"clipped_pg", "rollout_rs=seq_sum_k3 rollout_rs_threshold=0.05|9"},
      {"clipped_pg", "rollout_rs=seq_mean_k1 rollout_rs_threshold=1.1|9 rollout_rs_threshold_min=1",
       "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
      {"clipped_pg", "rollout_rs=seq_mean_k2 rollout_rs_threshold=0.01|9"},
      {"clipped_pg", "rollout_rs=seq_mean_k3 rollout_rs_threshold=0.01|9"},
      {"clipped_pg", "rollout_rs=seq_max_k2 rollout_rs_threshold=0.02|9"},
      {"clipped_pg", "rollout_rs=seq_max_k3 rollout_rs_threshold=0.02|9"},
      {"clipped_pg", "veto_ratio_min=0.9 veto_ratio_max=1.3"},
      {"clipped_pg", "off_policy_mask_threshold=0.02"},
      {"clipped_pg",
       "rollout_rs=token_k2 rollout_rs_threshold=0.01|1 token_masks_first=true "
       "use_importance_sampling_correction=true rollout_is=geometric"},

      {"clipped_pg", "policy_loss=sapo tau_pos=2 tau_neg=0.5"},
      {"clipped_pg",
       "policy_loss=geo_mean token_level_loss=false ratio_clip_min=0.05 "
       "ratio_clip_max=0.03"},
      {"clipped_pg", "policy_loss=dro dro_beta=0.7|0.2"},
      {"clipped_pg",
       "policy_loss=dppo_tv ratio_clip_min=0.02 ratio_clip_max=0.01 ratio_clip_c=1.05"},
      {"clipped_pg",
       "policy_loss=dppo_kl ratio_clip_min=0.001 ratio_clip_max=0.002 ratio_clip_c=1.05"},
      {"clipped_pg", "policy_loss=dppo_binary_tv ratio_clip_min=0.02 ratio_clip_max=0.01"},
      {"clipped_pg", "policy_loss=dppo_binary_kl ratio_clip_min=0.001 ratio_clip_max=0.002"},
      {"clipped_pg",
       "policy_loss=vespo vespo_k_pos=0.5 vespo_lambda_pos=0.4 vespo_k_neg=0.3 "
       "vespo_lambda_neg=0.6"},
      {"clipped_pg",
       "policy_loss=clip_cov clip_cov_ratio=0.2 clip_cov_lb=-0.6 clip_cov_ub=1.5 clip_cov_seed=3",
       "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
      {"clipped_pg", "policy_loss=kl_cov kl_cov_ratio=0.3 ppo_kl_coef=0.6"},
      {"clipped_pg", "top_entropy_quantile=0.4"},
      {"clipped_pg", "m2_threshold=0.01"},
      {"clipped_pg", "entropy_coefficient=0.3 positive_example_nll_weight=0.4",
       "temperature=0.7 sequence_temperatures=true"},

      {"clipped_pg", "loss_agg_mode=token-mean|seq-mean-token-mean",
       "objective.token_level_loss=false"},
      {"clipped_pg", "loss_agg_mode=token-sum entropy_coefficient=0.2"},
      {"clipped_pg", "loss_agg_mode=seq-mean-token-mean reference_policy_kl_penalty=0.3"},
      {"clipped_pg", "loss_agg_mode=seq-mean-token-mean count_masked_sequences=true"},
      {"clipped_pg", "loss_agg_mode=seq-mean-token-sum count_masked_sequences=true"},
      {"clipped_pg", "loss_agg_mode=seq-mean-token-sum"},
      {"clipped_pg", "loss_agg_mode=seq-mean-token-mean", "global_valid_seqs=9"},
      {"clipped_pg", "token_level_loss=false entropy_coefficient=0.1",
       "global_valid_toks=31 global_valid_seqs=8"},
      {"clipped_pg", "reference_policy_kl_penalty=0.2", "global_valid_toks=31"},
      {"clipped_pg",
       "loss_agg_mode=seq-mean-token-sum-norm|seq-mean-token-sum loss_scale_factor=5"},
      {"clipped_pg", "loss_agg_mode=prompt-mean prompt_group_size=2|1"},
      {"clipped_pg", "loss_agg_mode=prompt-mean prompt_group_size=1|2 count_masked_sequences=true"},
      {"clipped_pg", "loss_agg_mode=token-mean-legacy", "microbatches=3"},
      {"clipped_pg", "loss_agg_mode=token-mean-legacy count_masked_sequences=true",
       "microbatches=7"}};
  return cases;
}

}  // namespace lossgrid::plain
